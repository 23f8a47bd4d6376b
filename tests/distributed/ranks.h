#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deq/lab/distributed/world.h"

namespace deq::test {

/// What every rank of a test does. The test program is started again for each rank; there, main()
/// joins the world and runs the scenario instead of the tests.
class Scenario {
 public:
  using Body = std::function<void(const std::shared_ptr<lab::World>&)>;
  Scenario(const char* name, Body body, std::chrono::seconds timeout = std::chrono::seconds(20));
};

/// Names the scenario to the ranks that a test starts.
constexpr auto kScenarioVariable = "DEQ_TEST_SCENARIO";

struct Outcome {
  int status = 0;      ///< as a shell says it
  std::string output;  ///< on stdout and stderr
};

/// Runs a scenario as `size` processes of which rank 0 hosts the store, as mpirun starts them. A
/// process that has stopped itself is killed when the others have ended.
std::vector<Outcome> run_ranks(int64_t size, const std::string& scenario);

/// Fails the test with what the ranks said unless all of them succeeded.
void expect_success(int64_t size, const std::string& scenario);

}  // namespace deq::test
