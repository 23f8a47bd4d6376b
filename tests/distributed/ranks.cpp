#include "distributed/ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "deq/core/error.h"

namespace deq::test {
namespace {

using namespace std::chrono_literals;

struct Registered {
  Scenario::Body body;
  std::chrono::seconds timeout;
};

std::map<std::string, Registered>& scenarios() {
  static std::map<std::string, Registered> all;
  return all;
}

int run_scenario(const std::string& name) {
  try {
    const auto& [body, timeout] = scenarios().at(name);
    const auto world = lab::World::join(lab::rank_from_environment(), torch::kCPU, timeout);
    world->run([&body = body, &world] { body(world); });
  } catch (const std::exception& error) {
    std::cerr << fmt::format("{}\n", error.what());  // one write: other ranks write too
    return 1;
  }
  return 0;
}

int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(descriptor, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  close(descriptor);
  return ntohs(address.sin_port);
}

pid_t start_rank(int64_t rank, int64_t size, int port, const std::string& scenario,
                 const std::filesystem::path& output) {
  const auto child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv(kScenarioVariable, scenario.c_str(), 1);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execl("/proc/self/exe", "test_distributed", nullptr);
  _exit(127);
}

struct Started {
  pid_t process = 0;
  bool running = true, stopped = false;
};

void look(Started& rank, Outcome& outcome) {
  int status = 0;
  if (!rank.running || waitpid(rank.process, &status, WNOHANG | WUNTRACED) == 0) return;
  rank.stopped = WIFSTOPPED(status);
  if (rank.stopped) return;
  rank.running = false;
  outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string contents(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

Scenario::Scenario(const char* name, Body body, std::chrono::seconds timeout) {
  scenarios().emplace(name, Registered{std::move(body), timeout});
}

std::vector<Outcome> run_ranks(int64_t size, const std::string& scenario) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("deq-ranks-" + std::to_string(getpid()) + "-" + scenario);
  std::filesystem::create_directories(folder);
  const int port = free_port();
  std::vector<Started> ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    ranks.push_back({start_rank(rank, size, port, scenario, folder / std::to_string(rank))});
  }
  std::vector<Outcome> outcomes(ranks.size());
  const auto waits = [](const Started& rank) { return rank.running && !rank.stopped; };
  while (std::any_of(ranks.begin(), ranks.end(), waits)) {  // ctest ends a test that hangs
    for (size_t i = 0; i < ranks.size(); ++i) look(ranks[i], outcomes[i]);
    std::this_thread::sleep_for(10ms);
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].running) kill(ranks[i].process, SIGKILL);
    while (ranks[i].running) look(ranks[i], outcomes[i]);
    outcomes[i].output = contents(folder / std::to_string(i));
  }
  std::filesystem::remove_all(folder);
  return outcomes;
}

void expect_success(int64_t size, const std::string& scenario) {
  const auto outcomes = run_ranks(size, scenario);
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].status, 0) << "rank " << rank << ": " << outcomes[rank].output;
    EXPECT_EQ(outcomes[rank].output, "") << "rank " << rank;
  }
}

}  // namespace deq::test

int main(int argc, char** argv) {
  if (const char* scenario = std::getenv(deq::test::kScenarioVariable)) {
    return deq::test::run_scenario(scenario);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
