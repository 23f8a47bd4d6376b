#include "deq/lab/data/images/archive.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

/// A pipe into which a child complains.
class Complaints {
 public:
  Complaints() {
    require(::pipe2(ends_.data(), O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
  }
  ~Complaints() {
    ::close(ends_[0]);
    close_writing();
  }
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  int writing() const { return ends_[1]; }

  /// Everything, until nobody can write any more.
  std::string read_all() {
    close_writing();
    std::string text;
    std::array<char, 4096> buffer{};
    while (true) {
      const ssize_t count = ::read(ends_[0], buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return text;
      text.append(buffer.data(), static_cast<size_t>(count));
    }
  }

 private:
  void close_writing() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
};

/// The caller's, except what changes tar's language or adds to its options.
std::vector<char*> environment_for_tar(std::string& language) {
  std::vector<char*> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("TAR_OPTIONS=") && !text.starts_with("LC_ALL="))
      entries.push_back(*entry);
  }
  entries.push_back(language.data());
  entries.push_back(nullptr);
  return entries;
}

pid_t start_tar(std::vector<std::string> command, int complaints) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (auto& part : command) arguments.push_back(part.data());
  arguments.push_back(nullptr);
  std::string language = "LC_ALL=C";
  const auto environment = environment_for_tar(language);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, complaints, STDERR_FILENO);
  pid_t child = 0;
  const int code =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  require(code != ENOENT,
          "the program tar is missing, which unpacks archives: install it, or unpack the archive "
          "by other means and run `deq data check` on the result");
  require(code == 0, "cannot start the program tar: {}", std::strerror(code));
  return child;
}

/// Its status as waitpid gives it, and its first complaint.
std::pair<int, std::string> run_tar(const std::vector<std::string>& command) {
  Complaints complaints;
  const pid_t child = start_tar(command, complaints.writing());
  const auto text = complaints.read_all();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {status, text.substr(0, text.find('\n'))};
}

/// tar writes nothing outside of the folder. What it has unpacked is checked all the same.
void require_files_only(const fs::path& folder, const fs::path& archive) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto status = entry.symlink_status();
    require(fs::is_directory(status) || fs::is_regular_file(status),
            "{} holds {}, which is neither a file nor a folder", archive.string(),
            entry.path().lexically_relative(folder).string());
  }
}

}  // namespace

void unpack_archive(const fs::path& archive, const fs::path& folder) {
  std::error_code code;
  require<UsageError>(fs::is_regular_file(archive, code), "{} is no file", archive.string());
  // A name that begins with a slash is neither an option nor a file of another machine to tar.
  const auto [status, complaint] = run_tar({"tar", "-x", "-o", "-f", fs::absolute(archive).string(),
                                            "-C", fs::absolute(folder).string()});
  require(status == 0, "{} cannot be unpacked: {}", archive.string(),
          complaint.empty() ? "tar failed and did not say why" : complaint);
  require_files_only(folder, archive);
}

}  // namespace deq::lab
