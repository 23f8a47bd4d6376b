#include "lab/distributed/invocation.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/require.h"

namespace deq::lab::distributed {
namespace {

constexpr int kCannotStart = 127;

/// As exec wants them; it does not write to them.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Invocation::Invocation(std::vector<std::string> command) : command_(std::move(command)) {
  for (char** entry = environ; *entry != nullptr; ++entry) environment_.emplace_back(*entry);
}

void Invocation::set(const std::string& name, const std::string& value) {
  std::erase_if(environment_, [&](const auto& entry) { return entry.starts_with(name + "="); });
  environment_.push_back(name + "=" + value);
}

void Invocation::set_default(const std::string& name, const std::string& value) {
  if (std::getenv(name.c_str()) == nullptr) set(name, value);
}

pid_t Invocation::start() const {
  // Made before the fork, after which nothing may allocate.
  const auto command = pointers(command_), environment = pointers(environment_);
  const auto parent = getpid();
  const auto child = fork();
  require(child >= 0, "cannot start a process: {}", std::strerror(errno));
  if (child > 0) return child;
  // A group apart: what a terminal sends to its group reaches the ranks once, through the launcher.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);  // it ended before the line above
  execvpe(command[0], command.data(), environment.data());
  dprintf(STDERR_FILENO, "cannot start %s: %s\n", command[0], std::strerror(errno));
  _exit(kCannotStart);
}

}  // namespace deq::lab::distributed
