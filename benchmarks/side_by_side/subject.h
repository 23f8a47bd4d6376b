#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

#include "deq/lab/io/safetensors.h"
#include "deq/nn/equilibrium.h"

/// A model with a file's weights and data.
class Subject {
 public:
  explicit Subject(deq::lab::TensorFile file) : file_(std::move(file)) {}
  virtual ~Subject() = default;

  virtual torch::nn::Module& model() = 0;
  virtual void infer(const deq::EquilibriumPlan& plan) = 0;
  virtual torch::Tensor loss(const deq::EquilibriumPlan& plan, bool penalised) = 0;
  /// What one step from the file's state leads to, and in the parameters the loss's gradients.
  virtual deq::lab::TensorFile check() = 0;

  /// Keeps the first samples only, for a moment.
  virtual void keep_first(int64_t samples) = 0;

 protected:
  const torch::Tensor& tensor(const std::string& name) const { return file_.tensors.at(name); }

  void load_weights() {
    const torch::NoGradGuard no_grad;
    for (auto& item : model().named_parameters()) item.value().copy_(tensor("param." + item.key()));
    for (auto& item : model().named_buffers()) item.value().copy_(tensor("param." + item.key()));
  }

  deq::lab::TensorFile file_;
};

std::unique_ptr<Subject> make_mdeq(deq::lab::TensorFile file);
std::unique_ptr<Subject> make_transformer(deq::lab::TensorFile file);
