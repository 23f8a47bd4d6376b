#include "kernels/history/history.h"

#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"
#include "kernels/history/history_common.h"

// Operators go through torch's dispatcher, so that the CUDA plugin can add its kernels when it is
// loaded without the library knowing of it. Operators return their small results where the slabs
// are; the functions below bring them to the host.

namespace deq::kernels {

namespace reference {

at::Tensor dots(const at::Tensor& v, at::TensorList rows) {
  auto result =
      at::empty({v.size(0), static_cast<int64_t>(rows.size())}, v.options().dtype(at::kDouble));
  const auto wide = v.to(at::kDouble);
  for (size_t i = 0; i < rows.size(); ++i) {
    result.select(1, static_cast<int64_t>(i)).copy_((wide * rows[i]).sum(1));
  }
  return result;
}

at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                   const std::optional<at::Tensor>& newest,
                   const std::optional<at::Tensor>& /*marks*/) {
  at::sub_out(g, f, z);
  const auto own = g.to(at::kDouble).square().sum(1, /*keepdim=*/true);
  const auto image = f.to(at::kDouble).square().sum(1, /*keepdim=*/true);
  const auto dots = reference::dots(g, rows);
  return newest ? at::cat({own, image, dots, reference::dots(*newest, rows)}, 1)
                : at::cat({own, image, dots}, 1);
}

at::Tensor combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                   const std::optional<at::Tensor>& base, std::optional<at::Tensor> moved,
                   at::TensorList dot_rows) {
  const auto c = coefficients.to(out.options());
  out.zero_();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto weight = c.narrow(1, static_cast<int64_t>(i), 1);
    out.add_(at::where(weight == 0, at::zeros({}, out.options()), weight * rows[i]));
  }
  if (moved) at::add_out(*moved, *base, out);
  return reference::dots(out, dot_rows);
}

}  // namespace reference

namespace {
at::Tensor marked(const at::Tensor& marks, Mark mark) {
  return marks.bitwise_and(static_cast<int64_t>(mark)).ne(0).unsqueeze(1);
}

using Combine = decltype(reference::combine);

void advance_by(Combine* combine, at::TensorList rows, const at::Tensor& coefficients,
                const at::Tensor& z, at::Tensor& best, const at::Tensor& marks,
                std::optional<at::Tensor> step, std::optional<at::Tensor> next) {
  best.copy_(at::where(marked(marks, kImproved), z, best));
  if (!next) return;
  auto moved = next->is_same(z) ? std::optional(at::empty_like(z)) : next;  // z may be a row
  if (step) {
    combine(rows, coefficients, *step, z, moved, {});
  } else {
    combine(rows, coefficients, *moved, std::nullopt, std::nullopt, {});
  }
  next->copy_(at::where(marked(marks, kActive), *moved, best));
}
}  // namespace

namespace reference {
void advance(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
             at::Tensor& best, const at::Tensor& marks, std::optional<at::Tensor> step,
             std::optional<at::Tensor> next) {
  advance_by(&reference::combine, rows, coefficients, z, best, marks, std::move(step),
             std::move(next));
}
}  // namespace reference

namespace cpu {
void advance(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
             at::Tensor& best, const at::Tensor& marks, std::optional<at::Tensor> step,
             std::optional<at::Tensor> next) {
  advance_by(&cpu::combine, rows, coefficients, z, best, marks, std::move(step), std::move(next));
}
}  // namespace cpu

TORCH_LIBRARY(deq, library) {
  library.def(
      "observe(Tensor f, Tensor z, Tensor(a!) g, Tensor[] rows, Tensor? newest, Tensor? marks) -> "
      "Tensor");
  library.def(
      "advance(Tensor[] rows, Tensor coefficients, Tensor z, Tensor(a!) best, Tensor marks, "
      "Tensor(b!)? step, Tensor(c!)? next) -> ()");
  library.def("dots(Tensor v, Tensor[] rows) -> Tensor");
  library.def(
      "combine(Tensor[] rows, Tensor coefficients, Tensor(a!) out, Tensor? base, "
      "Tensor(b!)? moved, Tensor[] dot_rows) -> Tensor");
}

TORCH_LIBRARY_IMPL(deq, CompositeExplicitAutograd, library) {
  library.impl("observe", &reference::observe);
  library.impl("advance", &reference::advance);
  library.impl("dots", &reference::dots);
  library.impl("combine", &reference::combine);
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("observe", &cpu::observe);
  library.impl("advance", &cpu::advance);
  library.impl("dots", &cpu::dots);
  library.impl("combine", &cpu::combine);
}

namespace {
// The operator's key comes from its arguments, the coefficients too: all are where the slabs are.
at::Tensor call_combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                        const std::optional<at::Tensor>& base,
                        const std::optional<at::Tensor>& moved, at::TensorList dot_rows) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(reference::combine)>("deq::combine");
  return op.call(rows, coefficients, out, base, moved, dot_rows);
}
}  // namespace

namespace enqueue {

at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                   const std::optional<at::Tensor>& newest,
                   const std::optional<at::Tensor>& marks) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(reference::observe)>("deq::observe");
  return op.call(f, z, g, rows, newest, marks);
}

void combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out) {
  call_combine(rows, coefficients, out, std::nullopt, std::nullopt, {});
}

void advance(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
             at::Tensor& best, const at::Tensor& marks, const std::optional<at::Tensor>& step,
             const std::optional<at::Tensor>& next) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(reference::advance)>("deq::advance");
  op.call(rows, coefficients, z, best, marks, step, next);
}

}  // namespace enqueue

at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows) {
  return enqueue::observe(f, z, g, rows, std::nullopt, std::nullopt).cpu();
}

at::Tensor dots(const at::Tensor& v, at::TensorList rows) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(reference::dots)>("deq::dots");
  return op.call(v, rows).cpu();
}

void combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out) {
  enqueue::combine(rows, coefficients.to(out.device()), out);
}

at::Tensor combine_and_move(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                            const at::Tensor& base, at::Tensor& moved, at::TensorList dot_rows) {
  return call_combine(rows, coefficients.to(out.device()), out, base, moved, dot_rows).cpu();
}

}  // namespace deq::kernels
