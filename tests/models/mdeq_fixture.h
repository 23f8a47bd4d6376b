#pragma once

#include <string>

#include "deq/lab/io/safetensors.h"
#include "deq/models/mdeq/mdeq.h"

namespace deq::test {

/// The buffers of batch norms that no value depends on; the files do not have them.
bool counts_batches(const std::string& buffer);

/// A file of tests/fixtures, or of the folder that DEQ_FIXTURES names: a small model in float64 and
/// what the reference implementation makes of it.
class MdeqFixture {
 public:
  explicit MdeqFixture(const std::string& file = "mdeq.safetensors");

  const torch::Tensor& operator[](const std::string& name) const { return file_.tensors.at(name); }
  bool has(const std::string& name) const { return file_.tensors.contains(name); }

  const std::string& metadata(const std::string& name) const { return file_.metadata.at(name); }
  models::MdeqOptions options() const;  ///< from the file's metadata
  /// With the file's parameters and buffers, in float64.
  models::MdeqClassifier model() const;
  /// The tensors <prefix>.0, <prefix>.1, … of all scales.
  State state(const std::string& prefix) const;
  /// Whether a parameter is a bias under a batch norm, which takes it out again: its gradient is
  /// rounding alone.
  bool cancels(const std::string& parameter) const;
  /// The names of all tensors that begin with `prefix`, without it.
  std::vector<std::string> names(const std::string& prefix) const;

 private:
  lab::TensorFile file_;
};

/// Every gradient that the file names after `prefix`, and no other. Where all cancels it is to be
/// as small as rounding.
void expect_gradients(const torch::nn::Module& model, const MdeqFixture& fixture,
                      const std::string& prefix, double tolerance);

}  // namespace deq::test
