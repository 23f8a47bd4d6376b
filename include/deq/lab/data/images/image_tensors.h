#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace deq::lab {

/// Images of one size, all of them in memory.
struct ImageTensors {
  torch::Tensor images;              ///< uint8 [N, 3, H, W]
  torch::Tensor labels;              ///< int64 [N], 0 ≤ label < classes
  std::vector<std::string> classes;  ///< their names
};

}  // namespace deq::lab
