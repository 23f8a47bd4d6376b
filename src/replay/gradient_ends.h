#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace deq {

/// Where gradients leave graphs of a recording's own at shared parameters. A parameter's gradient
/// accumulator belongs to the stream on which it was made, and runs the parameter's hooks; the ends
/// here do neither.
class GradientEnds {
 public:
  explicit GradientEnds(std::vector<torch::Tensor> parameters)
      : parameters_(std::move(parameters)) {}

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

  /// While such graphs are made. It begins on the stream of the pass, where accumulators belong.
  class Making {
   public:
    explicit Making(GradientEnds& owner);
    ~Making();
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

   private:
    GradientEnds& owner_;
  };

  /// Lets the graph of `value`, which was made now and which nobody else uses, end here.
  void redirect(const torch::Tensor& value);

  /// Those of value·along for `inputs`, which are leaves, then for the parameters, as these lie in
  /// memory; undefined where it does not depend on one. The graph stays, and was redirected.
  std::vector<torch::Tensor> gradients(const torch::Tensor& value,
                                       const std::vector<torch::Tensor>& inputs,
                                       const torch::Tensor& along) const;

 private:
  using Node = torch::autograd::Node;

  std::vector<torch::Tensor> parameters_;
  std::vector<std::shared_ptr<Node>> ends_;
  // While graphs are made: the accumulators they lead to, and the numbers of the parameters. Held
  // for longer they would keep the stream on which they were made.
  std::map<std::shared_ptr<Node>, size_t> accumulators_;
};

}  // namespace deq
