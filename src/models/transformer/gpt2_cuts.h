#pragma once

#include <torch/types.h>

#include <string_view>
#include <vector>

#include "deq/models/transformer/tensor_parallel.h"

namespace deq::models {

/// How processes share a parameter of a layer.
enum class TensorCut {
  None,         ///< all have all of it
  Rows,         ///< each has a range of the rows
  RowsOfThree,  ///< each has a range of the rows of queries, of keys and of values
  Columns,      ///< each has a range of the columns
};

/// By the last two names of a parameter: "inner.weight".
TensorCut gpt2_cut(std::string_view name);

/// The part of a whole tensor that one process holds; a copy, except where it is all.
torch::Tensor own_part(const torch::Tensor& whole, TensorCut cut, const TensorPart& part);

/// The way back: overwrites a process's part of the whole.
void put_part(const torch::Tensor& whole, TensorCut cut, const TensorPart& part,
              const torch::Tensor& own);

/// The shape of the whole tensor of such a part.
std::vector<int64_t> whole_shape(const torch::Tensor& own, TensorCut cut, int64_t parts);

}  // namespace deq::models
