#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

namespace deq::lab {

/// A running mean of a model's parameters, which is often the better model, and of its buffers:
/// batch norms measured with one set of weights do not fit another. At first it forgets fast: after
/// step t by 1 − min(decay, (1 + t)/(10 + t)).
class WeightAverage {
 public:
  /// The model must outlive it. With a decay of 0 nothing is kept.
  WeightAverage(torch::nn::Module& model, double decay);

  bool active() const { return decay_ > 0; }

  /// Takes in parameters and buffers after a step, which counts from 1.
  void update(int64_t step);

  /// The means by the names in the model; what is written into them counts. Empty where none are
  /// kept.
  const std::map<std::string, torch::Tensor>& means() const { return means_; }

  /// The means in the model, for as long as it lives.
  class InPlace {
   public:
    explicit InPlace(WeightAverage& average);
    ~InPlace();
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;

   private:
    WeightAverage& average_;
    std::vector<torch::Tensor> trained_;
  };

 private:
  double decay_;
  std::map<std::string, torch::Tensor> means_;
  std::vector<torch::Tensor> in_model_, means_in_order_;
};

}  // namespace deq::lab
