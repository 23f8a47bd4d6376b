#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <string>

#include "deq/lab/io/safetensors.h"
#include "support/maps.h"

namespace deq::test {

/// tests/fixtures/solvers.safetensors, or the one in the folder DEQ_FIXTURES names.
class SolverFixture {
 public:
  SolverFixture();

  const torch::Tensor& operator[](const std::string& name) const { return file_.tensors.at(name); }
  /// A vector the file has as [B, D] or [B, D, 1], as [B, D].
  torch::Tensor slab(const std::string& name) const;
  nlohmann::json metadata(const std::string& name) const;

  TanhMap map() const { return {(*this)["W"], (*this)["x"]}; }
  torch::Tensor start() const { return torch::zeros_like((*this)["x"]); }

 private:
  lab::TensorFile file_;
};

}  // namespace deq::test
