#pragma once

#include <torch/types.h>

#include <functional>
#include <string_view>
#include <vector>

#include "replay/graph_work.h"
#include "replay/untouched.h"

namespace deq {

/// Compares what is replayed with what an evaluation gives. What is evaluated for that leaves no
/// trace in buffers and random numbers.
class ReplayCheck {
 public:
  /// In the precision in force.
  explicit ReplayCheck(const torch::Device& device);

  /// Replays, then evaluates with the random numbers that the replay drew.
  void replay_and_evaluate(GraphWork& work, std::string_view what,
                           const std::function<void()>& replay,
                           const std::function<void()>& evaluate) const;

  /// Throws an Error that names `what` where they differ by more than rounding does.
  void expect_same(std::string_view what, const torch::Tensor& replayed,
                   const torch::Tensor& evaluated) const;
  void expect_same(std::string_view what, const std::vector<torch::Tensor>& replayed,
                   const std::vector<torch::Tensor>& evaluated) const;
  void expect_same_gradients(std::string_view what, const std::vector<torch::Tensor>& replayed,
                             const std::vector<torch::Tensor>& evaluated) const;

 private:
  void expect_within(double factor, std::string_view what, const torch::Tensor& replayed,
                     const torch::Tensor& evaluated) const;
  double rounding_of(const torch::Tensor& value) const;

  torch::Device device_;
  double float32_rounding_;
};

}  // namespace deq
