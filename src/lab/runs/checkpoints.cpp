#include "deq/lab/runs/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "deq/core/error.h"
#include "deq/lab/io/checkpoint_file.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  int64_t step = -1;
  const auto [stopped, code] = std::from_chars(begin, end, step);
  return code == std::errc() && stopped == end && step >= 0 ? std::optional(step) : std::nullopt;
}

/// The newest first.
std::vector<fs::path> steps_in(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (const auto step = step_of(entry.path())) found.emplace_back(*step, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

Checkpoints::Checkpoints(fs::path folder, int64_t keep) : folder_(std::move(folder)), keep_(keep) {}

fs::path Checkpoints::file_of(int64_t step) const {
  return folder_ / fmt::format("{}{:09}{}", kPrefix, step, kSuffix);
}

void Checkpoints::save(int64_t step, const TensorFile& file) {
  std::error_code code;
  fs::create_directories(folder_, code);
  if (code) io::throw_system_error("create", folder_, code.value());
  write_checkpoint_file(file_of(step), file);
  prune(step);
}

void Checkpoints::prune(int64_t step) {
  std::error_code code;
  auto paths = steps_in(folder_);
  // One of a later step is no checkpoint of this run: the run would have gone on from there.
  std::erase_if(paths, [step](const auto& path) { return step_of(path) > step; });
  for (size_t i = static_cast<size_t>(keep_); i < paths.size(); ++i) fs::remove(paths[i], code);
}

void Checkpoints::mark_best(int64_t step) {
  // A second name for the same bytes, put in place in one move; a copy where there are no links.
  const fs::path fresh = folder_ / ".best.safetensors.tmp.link";
  std::error_code code;
  fs::remove(fresh, code);
  fs::create_hard_link(file_of(step), fresh, code);
  if (code) fs::copy_file(file_of(step), fresh, code);
  if (!code) fs::rename(fresh, best(), code);
  if (code) io::throw_system_error("write", best(), code.value());
  // Where the two are one file already, a rename does nothing.
  fs::remove(fresh, code);
}

bool Checkpoints::any() const {
  return !steps_in(folder_).empty();
}

std::optional<Checkpoints::Found> Checkpoints::newest(
    const std::function<void(const std::string&)>& warn) const {
  for (const auto& path : steps_in(folder_)) {
    try {
      return Found{.path = path, .file = read_checkpoint_file(path)};
    } catch (const Error& error) {
      warn(error.what());
    }
  }
  return std::nullopt;
}

}  // namespace deq::lab
