#include "support/solver_fixture.h"

#include <cstdlib>

namespace deq::test {
namespace {

std::filesystem::path fixtures_folder() {
  const char* folder = std::getenv("DEQ_FIXTURES");
  return folder == nullptr ? DEQ_FIXTURES_DIR : folder;
}

}  // namespace

SolverFixture::SolverFixture()
    : file_(read_safetensors(fixtures_folder() / "solvers.safetensors")) {}

torch::Tensor SolverFixture::slab(const std::string& name) const {
  const auto& tensor = (*this)[name];
  return tensor.reshape({tensor.size(0), -1});
}

nlohmann::json SolverFixture::metadata(const std::string& name) const {
  return nlohmann::json::parse(file_.metadata.at(name));
}

}  // namespace deq::test
