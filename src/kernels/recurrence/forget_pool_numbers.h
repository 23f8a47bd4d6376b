#pragma once

#include "kernels/common/host_device.h"

namespace deq::kernels {

/// One feature of one position of forget_pool.h, for host and device.
template <class F>
struct PoolNumber {
  F candidate, forget, output;  // z, f, o

  struct Gradients {
    F candidate, forget, output;  // of what z, f and o are made from
    F before;                     // of the state before
  };

  DEQ_HOST_DEVICE F state(F before) const { return forget * before + (F(1) - forget) * candidate; }
  DEQ_HOST_DEVICE F hidden(F c) const { return output * c; }

  /// For ∂h and what comes to c from later positions.
  DEQ_HOST_DEVICE Gradients gradients(F for_hidden, F later, F before, F c) const {
    const F for_state = later + for_hidden * output;
    const F kept = forget * (F(1) - forget);
    return {for_state * (F(1) - forget) * (F(1) - candidate * candidate),
            for_state * (before - candidate) * kept, for_hidden * c * output * (F(1) - output),
            for_state * forget};
  }
};

}  // namespace deq::kernels
