#pragma once

#include "kernels/common/host_device.h"

namespace deq::kernels {

/// One number of gate.h, for host and device.
template <class F>
struct GateNumber {
  F a, u;
  F sigmoid;  // of a

  DEQ_HOST_DEVICE F hidden() const { return a * sigmoid * u; }
  DEQ_HOST_DEVICE F for_gate(F g) const { return g * u * sigmoid * (F(1) + a * (F(1) - sigmoid)); }
  DEQ_HOST_DEVICE F for_up(F g) const { return g * a * sigmoid; }
};

}  // namespace deq::kernels
