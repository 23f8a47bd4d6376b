#include "kernels/probes/probes.h"

#include <torch/library.h>
#include <torch/types.h>

#include <cmath>
#include <numbers>

#include "core/require.h"
#include "kernels/common/operators.h"
#include "kernels/probes/philox.h"

namespace deq::kernels {

namespace reference {
namespace {

double normal(const PhiloxBlock& block, uint64_t row) {
  const auto* pair = block.word + row / 2 % 2 * 2;
  const double uniform = (pair[0] + 0.5) * 0x1p-32, turn = pair[1] * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(uniform)), angle = 2 * std::numbers::pi * turn;
  return radius * (row % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

void probe(at::Tensor& out, bool signs, int64_t key, int64_t first_row) {
  const auto host = at::empty(out.sizes(), at::kDouble);
  auto entries = host.accessor<double, 2>();
  for (int64_t r = 0; r < host.size(0); ++r) {
    const auto row = static_cast<uint64_t>(first_row + r);
    for (int64_t c = 0; c < host.size(1); ++c) {
      const auto column = static_cast<uint64_t>(c);
      const auto block = philox(static_cast<uint64_t>(key), signs ? column / 32 : column, row / 4);
      const double sign = (block.word[row % 4] >> column % 32 & 1) != 0 ? -1 : 1;
      entries[r][c] = signs ? sign : normal(block, row);
    }
  }
  out.copy_(host);
}

}  // namespace reference

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("probe(Tensor(a!) out, bool signs, int key, int first_row) -> ()");
}

TORCH_LIBRARY_IMPL(deq, CompositeExplicitAutograd, library) {
  library.impl("probe", &reference::probe);
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("probe", &cpu::probe);
}

void draw_probe(at::Tensor& out, Probe kind, uint64_t key, int64_t first_row) {
  require(out.dim() == 2 && out.is_contiguous(), "probe: out must be a contiguous [B, D]");
  require(out.scalar_type() == at::kFloat || out.scalar_type() == at::kDouble,
          "probe: out is {}, must be float32 or float64", out.scalar_type());
  require(first_row >= 0, "probe: first_row = {}, must be ≥ 0", first_row);
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(reference::probe)>("deq::probe");
  op.call(out, kind == Probe::Signs, static_cast<int64_t>(key), first_row);
}

}  // namespace deq::kernels
