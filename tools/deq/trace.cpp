#include "trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "core/require.h"
#include "output_file.h"

namespace deq::lab::cli {
namespace fs = std::filesystem;
namespace {

/// The profiler says on standard error that it found no GPU, and what it could not write; the first
/// is no error, and the second is said here. Whoever sets the variable sees its lines.
void silence_profiler() {
  ::setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
}

/// Whether the whole of an object of JSON was written: the profiler does not say.
bool is_whole(const fs::path& path) {
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  char last = 0;
  return file && file.tellg() > 0 && file.seekg(-1, std::ios::end) && file.get(last) && last == '}';
}

}  // namespace

Trace::Trace(std::string path) : path_(std::move(path)) {
  if (asked_for()) require_writable("--trace", path_);
}

Trace::~Trace() {
  if (running_) torch::autograd::profiler::disableProfiler();
}

void Trace::begin(const torch::Device& device) {
  using torch::profiler::impl::ActivityType;
  silence_profiler();
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  running_ = true;
}

void Trace::write() {
  running_ = false;
  const auto target = fs::absolute(path_);
  const auto temporary =
      target.parent_path() / fmt::format(".{}.tmp.{}", target.filename().string(), ::getpid());
  torch::autograd::profiler::disableProfiler()->save(temporary.string());
  std::error_code code;
  const bool whole = is_whole(temporary);
  if (whole) fs::rename(temporary, target, code);
  if (whole && !code) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fs::remove(temporary.string() + ".tmp", ignored);  // where the profiler writes at first
  throw Error(fmt::format("cannot write the trace {}{}", path_, code ? ": " + code.message() : ""));
}

}  // namespace deq::lab::cli
