#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "deq/lab/io/safetensors.h"
#include "deq/models/transformer/transformer.h"
#include "deq/models/transformer/transformer_xl.h"

namespace deq::test {

/// A file of tests/fixtures/, or of the folder DEQ_FIXTURES names: a small language model in
/// float64 and what the reference implementation makes of it.
class TransformerFixture {
 public:
  explicit TransformerFixture(const std::string& name);

  const torch::Tensor& operator[](const std::string& name) const { return file_.tensors.at(name); }
  bool has(const std::string& name) const { return file_.tensors.contains(name); }

  /// [B, n, …] of a tensor [n, B, …], as the reference has tokens and memories.
  torch::Tensor batch_first(const std::string& name) const;
  /// [B, q, d] of a tensor [B, d, q], as the reference has states.
  torch::Tensor state(const std::string& name) const;
  /// The costs `nll` [B, T] of the targets are the file's, [T, B], which the reference lists by
  /// position or cluster by cluster.
  void expect_costs(const torch::Tensor& nll, const std::vector<int64_t>& cutoffs,
                    double tolerance) const;
  /// The names of all tensors that begin with `prefix`, without it.
  std::vector<std::string> names(const std::string& prefix) const;

  // From the file's metadata; models with the file's parameters and buffers, in float64.
  models::TransformerOptions options() const;
  models::TransformerXlOptions xl_options() const;
  models::DeqTransformer model() const;
  models::TransformerXL xl_model() const;

  /// The model has the file's names and no others.
  void expect_names(const torch::nn::Module& model,
                    const std::vector<models::TiedName>& tied) const;

  /// Every gradient named in the file, and no other. That of a tied parameter is the sum of those
  /// that the file has under its names.
  void expect_gradients(const torch::nn::Module& model, const std::vector<models::TiedName>& tied,
                        const std::string& prefix, double tolerance) const;

 private:
  nlohmann::json config() const;
  void load(torch::nn::Module& model, const std::vector<models::TiedName>& tied) const;

  lab::TensorFile file_;
};

}  // namespace deq::test
