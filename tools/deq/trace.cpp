#include "trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <filesystem>
#include <set>
#include <utility>

#include "core/require.h"
#include "deq/lab/base/errors.h"

namespace deq::lab::cli {

Trace::Trace(std::string path) : path_(std::move(path)) {
  if (!asked_for()) return;
  const auto folder = std::filesystem::absolute(path_).parent_path();
  require<UsageError>(std::filesystem::is_directory(folder), "--trace {}: there is no folder {}",
                      path_, folder.string());
}

Trace::~Trace() {
  if (running_) torch::autograd::profiler::disableProfiler();
}

void Trace::begin(const torch::Device& device) {
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  running_ = true;
}

void Trace::write() {
  running_ = false;
  torch::autograd::profiler::disableProfiler()->save(path_);
}

}  // namespace deq::lab::cli
