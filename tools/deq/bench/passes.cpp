#include "bench/passes.h"

#include <torch/autograd.h>

#include "bench/stopwatch.h"
#include "bench/traffic.h"
#include "deq/jacobian/frobenius.h"
#include "lab/base/device.h"
#include "lab/train/memory.h"

namespace deq::lab::cli {

Passes::Passes(Subject& subject, const BenchArguments& arguments)
    : subject_(subject),
      arguments_(arguments),
      device_(usable_device(arguments.device)),
      optimiser_(Adam{}, trainable(subject.model())) {}

void Passes::infer(const EquilibriumPlan& how) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(arguments_.precision, device_);
  subject_.model().eval();
  subject_.forward(how);
}

void Passes::train(const EquilibriumPlan& how, bool penalised) {
  subject_.model().train();
  optimiser_.zero_grad();
  TaskPass pass;
  torch::Tensor loss;
  {
    const PrecisionScope precision(arguments_.precision, device_);
    pass = subject_.forward(how);
    loss = pass.loss;
    if (penalised) loss = loss + jacobian_penalty(pass.equilibria[0].linearization());
  }
  torch::autograd::backward({loss}, {}, {}, false, optimiser_.parameters());
  optimiser_.step(0.0);  // the work of a step, the weights of the first
}

double Passes::inference_ms(const EquilibriumPlan& how) {
  return median_ms(device_, arguments_.repeats, [&] { infer(how); });
}

double Passes::step_ms(const EquilibriumPlan& how, bool penalised) {
  return median_ms(device_, arguments_.repeats, [&] { train(how, penalised); });
}

double Passes::peak_mib(const std::function<void()>& work) const {
  reset_peak_memory(device_);
  work();
  return peak_memory_mib(device_);
}

double Passes::bytes_of_f(const EquilibriumPlan& how) {
  const PrecisionScope precision(arguments_.precision, device_);
  subject_.model().eval();
  const auto pass = [&] {
    const torch::NoGradGuard no_grad;
    return subject_.forward(how);
  }();
  return bytes_moved([&] { pass.equilibria[0].linearization(); });
}

}  // namespace deq::lab::cli
