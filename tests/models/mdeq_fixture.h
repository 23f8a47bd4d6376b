#pragma once

#include <string>

#include "deq/lab/io/safetensors.h"
#include "deq/models/mdeq/mdeq.h"

namespace deq::test {

/// The buffers of batch norms that no value depends on; the files do not have them.
bool counts_batches(const std::string& buffer);

/// tests/fixtures/mdeq.safetensors, or the one in the folder DEQ_FIXTURES names: a small model in
/// float64 and what the reference implementation makes of it.
class MdeqFixture {
 public:
  MdeqFixture();

  const torch::Tensor& operator[](const std::string& name) const { return file_.tensors.at(name); }
  bool has(const std::string& name) const { return file_.tensors.contains(name); }

  models::MdeqOptions options() const;  ///< from the file's metadata
  /// With the file's parameters and buffers, in float64.
  models::MdeqClassifier model() const;
  /// The tensors <prefix>.0, <prefix>.1, … of all scales.
  State state(const std::string& prefix) const;
  /// The names of all tensors that begin with `prefix`, without it.
  std::vector<std::string> names(const std::string& prefix) const;

 private:
  lab::TensorFile file_;
};

}  // namespace deq::test
