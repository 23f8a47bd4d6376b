#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "deq/lab/data/batches/shard.h"
#include "deq/lab/distributed/world.h"

// What goes on from step to step with the rows of a batch, on any number of ranks and parts.

namespace deq::lab {

/// Tensors whose first dimension is the row, for each part of a step. All parts have as many.
using RowsOfParts = std::vector<std::vector<torch::Tensor>>;

/// Those of all ranks and parts, in the order of a single process's batch.
std::map<std::string, torch::Tensor> gather_rows(const RowsOfParts& parts, const Shard& shard,
                                                 World& world);

/// The way back. Throws Error where they do not fit.
RowsOfParts scatter_rows(const std::map<std::string, torch::Tensor>& gathered, const Shard& shard,
                         torch::Device device);

}  // namespace deq::lab
