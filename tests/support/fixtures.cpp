#include "support/fixtures.h"

#include <cstdlib>

namespace deq::test {

std::filesystem::path fixture(const std::string& file) {
  const char* folder = std::getenv("DEQ_FIXTURES");
  return std::filesystem::path(folder == nullptr ? DEQ_FIXTURES_DIR : folder) / file;
}

}  // namespace deq::test
