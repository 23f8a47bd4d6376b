#include "support/solver_fixture.h"

#include "support/fixtures.h"

#include <cstdlib>

namespace deq::test {

SolverFixture::SolverFixture() : file_(lab::read_safetensors(fixture("solvers.safetensors"))) {}

torch::Tensor SolverFixture::slab(const std::string& name) const {
  const auto& tensor = (*this)[name];
  return tensor.reshape({tensor.size(0), -1});
}

nlohmann::json SolverFixture::metadata(const std::string& name) const {
  return nlohmann::json::parse(file_.metadata.at(name));
}

}  // namespace deq::test
