#include "lab/train/rank_sum.h"

#include <algorithm>

namespace deq::lab {

void sum_over_ranks(std::span<double> row, World& world, torch::Device device) {
  if (world.size() == 1) return;
  auto sums = torch::from_blob(row.data(), {static_cast<int64_t>(row.size())}, torch::kFloat64)
                  .to(device, torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
  world.sum(sums);
  sums = sums.cpu();
  std::copy_n(sums.const_data_ptr<double>(), row.size(), row.begin());
}

}  // namespace deq::lab
