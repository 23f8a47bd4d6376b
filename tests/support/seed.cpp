#include "support/seed.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdlib>
#include <string>

namespace deq::test {

uint64_t seed() {
  constexpr uint64_t kDefault = 20210713;
  const char* text = std::getenv("DEQ_TEST_SEED");
  return text == nullptr ? kDefault : std::stoull(text);
}

at::Generator generator(uint64_t stream) {
  return at::detail::createCPUGenerator(seed() * 1000003 + stream);
}

Seeded::Seeded()
    : generator_(generator()),
      trace_(__FILE__, __LINE__, "DEQ_TEST_SEED=" + std::to_string(seed())) {}

}  // namespace deq::test
