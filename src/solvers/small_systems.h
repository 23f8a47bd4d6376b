#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Dense algebra on matrices of a history's size, on the host, in float64.

namespace deq {

/// A square matrix of fixed size, zero at first.
class SmallMatrix {
 public:
  explicit SmallMatrix(int64_t size)
      : size_(size), values_(static_cast<std::size_t>(size * size)) {}
  double& operator()(int64_t i, int64_t j) {
    return values_[static_cast<std::size_t>(i * size_ + j)];
  }
  double operator()(int64_t i, int64_t j) const {
    return values_[static_cast<std::size_t>(i * size_ + j)];
  }
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  std::vector<double> values_;
};

/// A symmetric matrix that grows by one row at a time.
class GrowingSymmetric {
 public:
  /// Appends a row up to and including its diagonal: size() + 1 numbers.
  void append(const double* row) {
    values_.insert(values_.end(), row, row + size_ + 1);
    ++size_;
  }
  /// Scales the last row, and so the last column.
  void scale_last(double factor) {
    for (int64_t j = 0; j < size_; ++j) at(size_ - 1, j) *= factor;
    at(size_ - 1, size_ - 1) *= factor;
  }
  double operator()(int64_t i, int64_t j) const {
    return values_[static_cast<std::size_t>(i < j ? index(j, i) : index(i, j))];
  }
  int64_t size() const { return size_; }
  const double* data() const { return values_.data(); }  // the lower triangle, row by row

 private:
  static int64_t index(int64_t i, int64_t j) { return i * (i + 1) / 2 + j; }
  double& at(int64_t i, int64_t j) { return values_[static_cast<std::size_t>(index(i, j))]; }

  int64_t size_ = 0;
  std::vector<double> values_;
};

}  // namespace deq
