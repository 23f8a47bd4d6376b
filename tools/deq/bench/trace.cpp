#include "bench/trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

namespace deq::lab::cli {

void write_trace(const std::string& path, const torch::Device& device,
                 const std::function<void()>& work) {
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  work();
  torch::autograd::profiler::disableProfiler()->save(path);
}

}  // namespace deq::lab::cli
