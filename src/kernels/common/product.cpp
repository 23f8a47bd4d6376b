#include "kernels/common/product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <vector>

#include "kernels/common/block_cache.h"
#include "kernels/common/panels.h"
#include "kernels/common/vectorised.h"

namespace deq::kernels {
namespace {

using panels::kLanes, panels::Vector, panels::vector_at;
#define DEQ_INLINE [[gnu::always_inline]] inline

// A panel, and the rows that are multiplied with it, come from the first and second-level cache.
constexpr int64_t kPanelDepth = 256, kPanelRows = 256;
constexpr int64_t kPanel = panels::kMostVectors * kLanes;
constexpr int64_t kFewRows = 8;             // not worth laying out a panel for fewer
constexpr int64_t kWorthAThread = 1 << 20;  // of products

struct Matrix {
  const float* numbers;
  int64_t row, column;  // how far apart these are

  explicit Matrix(const at::Tensor& t)
      : numbers(t.const_data_ptr<float>()), row(t.stride(-2)), column(t.stride(-1)) {}
  const float* at(int64_t i, int64_t j) const { return numbers + i * row + j * column; }
};

struct Product {
  Matrix a, b;
  float* c;
  int64_t c_row, rows, depth, columns;
  bool add;
};

/// to[j][i] = from[i][j] of 8 × 8 numbers, whose rows are apart.
DEQ_INLINE void transpose_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Vector r[kLanes], pairs[kLanes], quads[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) r[i] = vector_at<kLanes>(from + i * from_row);
  for (int64_t i = 0; i < kLanes; i += 2) {
    pairs[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int64_t half = 0; half < kLanes; half += 4) {
    for (int64_t i = half; i < half + 2; ++i) {
      quads[2 * i - half] =
          __builtin_shufflevector(pairs[i], pairs[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      quads[2 * i - half + 1] =
          __builtin_shufflevector(pairs[i], pairs[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int64_t i = 0; i < 4; ++i) {
    vector_at<kLanes>(to + i * to_row) =
        __builtin_shufflevector(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    vector_at<kLanes>(to + (i + 4) * to_row) =
        __builtin_shufflevector(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// to[j][i] = from[i][j] of rows × columns numbers.
DEQ_INLINE void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns,
                          float* to, int64_t to_row) {
  const int64_t whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
  for (int64_t i = 0; i < whole_rows; i += kLanes) {
    for (int64_t j = 0; j < whole_columns; j += kLanes) {
      transpose_square(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
    }
    for (int64_t j = whole_columns; j < columns; ++j) {
      for (int64_t r = i; r < i + kLanes; ++r) to[j * to_row + r] = from[r * from_row + j];
    }
  }
  for (int64_t i = whole_rows; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * to_row + i] = from[i * from_row + j];
  }
}

/// Rows [k, k + depth) of some columns of b, the last ones zero where there are fewer.
DEQ_INLINE void fill_panel(const Matrix& b, int64_t k, int64_t depth, int64_t column, int64_t count,
                           int64_t width, float* panel) {
  const float* const from = b.at(k, column);
  if (count < width) std::fill_n(panel, depth * width, 0.0F);
  if (b.column != 1) {
    transpose(from, b.column, count, depth, panel, width);
    return;
  }
  for (int64_t i = 0; i < depth; ++i) std::copy_n(from + i * b.row, count, panel + i * width);
}

/// Columns of c that do not fill a panel are computed beside it.
DEQ_INLINE void multiply_edge(panels::Rows rows, int64_t count, int64_t depth, const float* panel,
                              int64_t vectors, int64_t columns, bool add) {
  constexpr int64_t kAtOnce = 8;
  float beside[kAtOnce * kPanel];
  const int64_t width = vectors * kLanes;
  for (int64_t row = 0; row < count; row += kAtOnce) {
    const int64_t some = std::min(kAtOnce, count - row);
    panels::multiply_panel({.a = rows.a, .a_row = rows.a_row, .c = beside, .c_row = width}, some,
                           depth, panel, vectors, /*add=*/false);
    for (int64_t r = 0; r < some; ++r) {
      float* const to = rows.c + r * rows.c_row;
      for (int64_t j = 0; j < columns; ++j) {
        to[j] = beside[r * width + j] + (add ? to[j] : 0.0F);
      }
    }
    rows.a += some * rows.a_row;
    rows.c += some * rows.c_row;
  }
}

/// Room for a panel, and for rows of a that do not lie side by side.
struct Workspace {
  std::vector<float> panel = std::vector<float>(kPanelDepth * kPanel);
  std::vector<float> rows = std::vector<float>(kPanelDepth * kPanelRows);

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    return workspace;
  }
};

constexpr auto multiply_matrices = vectorised([](const Product& p, Workspace* w) DEQ_INLINED {
  for (int64_t row = 0; row < p.rows; row += kPanelRows) {
    const int64_t count = std::min(kPanelRows, p.rows - row);
    for (int64_t k = 0; k < p.depth; k += kPanelDepth) {
      const int64_t depth = std::min(kPanelDepth, p.depth - k);
      const bool add = p.add || k > 0;
      const bool turned = p.a.column != 1;
      if (turned) transpose(p.a.at(row, k), p.a.column, depth, count, w->rows.data(), depth);
      for (int64_t column = 0, width = 0; column < p.columns; column += width) {
        const int64_t left = p.columns - column;
        const int64_t vectors = panels::panel_vectors((left + kLanes - 1) / kLanes);
        width = vectors * kLanes;
        const int64_t columns = std::min(width, left);
        fill_panel(p.b, k, depth, column, columns, width, w->panel.data());
        const panels::Rows rows{.a = turned ? w->rows.data() : p.a.at(row, k),
                                .a_row = turned ? depth : p.a.row,
                                .c = p.c + row * p.c_row + column,
                                .c_row = p.c_row};
        if (columns == width) {
          panels::multiply_panel(rows, count, depth, w->panel.data(), vectors, add);
        } else {
          multiply_edge(rows, count, depth, w->panel.data(), vectors, columns, add);
        }
      }
    }
  }
});

#undef DEQ_INLINE

/// Matrices, or matrices of samples.
bool is_served(const at::Tensor& a, const at::Tensor& b) {
  const auto fits = [](const at::Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat && (t.stride(-2) == 1 || t.stride(-1) == 1);
  };
  return fits(a) && fits(b) && a.size(-2) >= kFewRows && a.size(-1) > 0 && a.size(-1) == b.size(-2);
}

}  // namespace

namespace cpu {

bool own_products_pay() {
#ifdef __x86_64__
  static const bool pay =
      widest_instructions != InstructionSet::kBaseline && !__builtin_cpu_is("intel");
  return pay;
#else
  return false;
#endif
}

bool own_product_serves(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == 2 && b.dim() == 2 && is_served(a, b);
}

void own_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add) {
  multiply_matrices(Product{.a = Matrix(a),
                            .b = Matrix(b),
                            .c = c.data_ptr<float>(),
                            .c_row = c.stride(0),
                            .rows = c.size(0),
                            .depth = a.size(1),
                            .columns = c.size(1),
                            .add = add},
                    &Workspace::of_this_thread());
}

}  // namespace cpu

namespace {

bool takes_own_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {
  return cpu::own_products_pay() && c.stride(1) == 1 && cpu::own_product_serves(a, b);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): what out= takes is not const.
void torchs_product(at::Tensor c, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (add) {
    c.addmm_(a, b);
  } else {
    at::mm_out(c, a, b);
  }
}

}  // namespace

void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add) {
  takes_own_product(c, a, b) ? cpu::own_product(c, a, b, add) : torchs_product(c, a, b, add);
}

void multiply_in_parallel(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (!takes_own_product(c, a, b)) {
    torchs_product(c, a, b, add);
    return;
  }
  const int64_t of_a_row = std::max<int64_t>(1, b.size(0) * b.size(1));
  const int64_t least = (kWorthAThread / of_a_row + kFewRows) / kFewRows * kFewRows;
  at::parallel_for(0, a.size(0), least, [&](int64_t first, int64_t last) {
    const WithoutGradients guard;
    const auto rows = last - first;
    cpu::own_product(c.narrow(0, first, rows), a.narrow(0, first, rows), b, add);
  });
}

namespace {

bool take_own_products(const at::Tensor& a, const at::Tensor& b) {
  return cpu::own_products_pay() && a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) &&
         is_served(a, b);
}

/// a[s]·b[s] of every sample s, whatever c it goes to.
struct SampleProducts {
  Product first;
  int64_t a_sample, b_sample;  // how far apart these are

  static SampleProducts of(const at::Tensor& a, const at::Tensor& b) {
    return {.first = {.a = Matrix(a),
                      .b = Matrix(b),
                      .c = nullptr,
                      .c_row = b.size(2),
                      .rows = a.size(1),
                      .depth = a.size(2),
                      .columns = b.size(2),
                      .add = false},
            .a_sample = a.stride(0),
            .b_sample = b.stride(0)};
  }

  void multiply(int64_t sample, float* c, bool add) const {
    auto product = first;
    product.a.numbers += sample * a_sample;
    product.b.numbers += sample * b_sample;
    product.c = c;
    product.add = add;
    multiply_matrices(product, &Workspace::of_this_thread());
  }
};

}  // namespace

at::Tensor products(const at::Tensor& a, const at::Tensor& b) {
  if (!take_own_products(a, b)) return at::bmm(a, b);
  const auto samples = SampleProducts::of(a, b);
  const int64_t m = a.size(1), n = b.size(2);
  auto c = empty_reused({a.size(0), m, n}, b.options());
  auto* const to = c.data_ptr<float>();
  const auto of_a_sample = std::max<int64_t>(1, m * a.size(2) * n);
  const auto least = std::max<int64_t>(1, kWorthAThread / of_a_sample);
  at::parallel_for(0, a.size(0), least, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) samples.multiply(s, to + s * m * n, /*add=*/false);
  });
  return c;
}

at::Tensor summed_products(const at::Tensor& a, const at::Tensor& b) {
  if (!take_own_products(a, b) || a.size(0) == 0) return at::bmm(a, b).sum(0);
  // As many parts whatever the number of threads, so that the sum has the same bits.
  constexpr int64_t kParts = 16;
  const auto samples = SampleProducts::of(a, b);
  const int64_t count = a.size(0), parts = std::min(kParts, count), m = a.size(1), n = b.size(2);
  const auto sums = at::empty({parts, m, n}, b.options());
  auto* const to = sums.data_ptr<float>();
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      const int64_t begin = part * count / parts, end = (part + 1) * count / parts;
      for (int64_t s = begin; s < end; ++s) samples.multiply(s, to + part * m * n, s > begin);
    }
  });
  return sums.sum(0);
}

}  // namespace deq::kernels
