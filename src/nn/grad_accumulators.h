#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

namespace deq {

/// The ends of a graph of its own at shared parameters. A parameter has one accumulator at a time,
/// which belongs to the stream on which it was first used; a graph that stays for long would keep
/// its own for everybody. While a Scope lives, the parameters have those of this graph.
class GradAccumulators {
 public:
  explicit GradAccumulators(std::vector<torch::Tensor> parameters)
      : parameters_(std::move(parameters)), own_(parameters_.size()) {}

  class Scope {
   public:
    explicit Scope(GradAccumulators& owner);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GradAccumulators& owner_;
    std::vector<std::shared_ptr<torch::autograd::Node>> others_;
  };

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> own_;
};

}  // namespace deq
