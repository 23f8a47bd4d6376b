#include "nn/grad_accumulators.h"

#include <torch/csrc/autograd/variable.h>

namespace deq {

namespace impl = torch::autograd::impl;

GradAccumulators::Scope::Scope(GradAccumulators& owner) : owner_(owner) {
  for (size_t i = 0; i < owner_.parameters_.size(); ++i) {
    others_.push_back(impl::try_get_grad_accumulator(owner_.parameters_[i]));
    impl::set_grad_accumulator(owner_.parameters_[i], owner_.own_[i]);
  }
}

GradAccumulators::Scope::~Scope() {
  for (size_t i = 0; i < owner_.parameters_.size(); ++i) {
    owner_.own_[i] = impl::try_get_grad_accumulator(owner_.parameters_[i]);
    impl::set_grad_accumulator(owner_.parameters_[i], others_[i]);
  }
}

}  // namespace deq
