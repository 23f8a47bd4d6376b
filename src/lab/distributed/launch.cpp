#include "deq/lab/distributed/launch.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <thread>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/distributed/invocation.h"
#include "lab/distributed/sentinel.h"

namespace deq::lab {
namespace {

using distributed::Invocation;
using LaunchClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kMisuse = 2;  // the status of a command that was asked for what cannot be
constexpr auto kPoll = 20ms;
constexpr auto kGrace = 5s;      // to end by themselves
constexpr auto kLastGrace = 2s;  // to end after SIGTERM

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

/// Keeps SIGINT and SIGTERM for the ranks as long as there are any.
class SignalsForRanks {
 public:
  SignalsForRanks() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { caught_signal = signal; };
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  SignalsForRanks(const SignalsForRanks&) = delete;
  SignalsForRanks& operator=(const SignalsForRanks&) = delete;
  ~SignalsForRanks() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

struct Rank {
  pid_t process = 0;
  std::optional<int> ended;  // as waitpid says it
};

int shell_status(int ended) {
  return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
}

std::string how_it_ended(int ended) {
  if (!WIFSIGNALED(ended)) return fmt::format("failed with status {}", WEXITSTATUS(ended));
  return fmt::format("was ended by signal {} ({})", WTERMSIG(ended), strsignal(WTERMSIG(ended)));
}

/// Whatever happens in between, no rank is left behind.
class Ranks {
 public:
  explicit Ranks(c10::intrusive_ptr<c10d::TCPStore> store) : store_(std::move(store)) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    send(SIGKILL);
    for (auto& rank : ranks_) {
      if (!rank.ended) waitpid(rank.process, nullptr, 0);
    }
  }

  void start(int64_t processes, Invocation invocation) {
    invocation.set("MASTER_ADDR", "127.0.0.1");
    invocation.set("MASTER_PORT", std::to_string(store_->getPort()));
    invocation.set("WORLD_SIZE", std::to_string(processes));
    invocation.set("LOCAL_WORLD_SIZE", std::to_string(processes));
    invocation.set("TORCHELASTIC_USE_AGENT_STORE", "True");
    invocation.set("TORCHELASTIC_RESTART_COUNT", "0");
    invocation.set_default("OMP_NUM_THREADS",
                           std::to_string(std::max<int64_t>(1, usable_cores() / processes)));
    invocation.set_default("OMP_WAIT_POLICY", "PASSIVE");
    for (int64_t rank = 0; rank < processes; ++rank) {
      invocation.set("RANK", std::to_string(rank));
      invocation.set("LOCAL_RANK", std::to_string(rank));
      ranks_.push_back({invocation.start(), std::nullopt});
    }
  }

  int wait() {
    while (look()) {
      if (const int signal = caught_signal.exchange(0)) {
        send(signal);
        signalled_ = true;
      }
      if (first_failure_ && LaunchClock::now() > next_step_) end_the_others();
      std::this_thread::sleep_for(kPoll);
    }
    return first_failure_ ? shell_status(*first_failure_) : 0;
  }

 private:
  /// Whether any rank still runs.
  bool look() {
    bool running = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      auto& rank = ranks_[i];
      int status = 0;
      if (rank.ended) continue;
      if (waitpid(rank.process, &status, WNOHANG) == 0) {
        running = true;
        continue;
      }
      rank.ended = status;
      if (status != 0 && !first_failure_) fail(static_cast<int64_t>(i), status);
    }
    return running;
  }

  void fail(int64_t rank, int ended) {
    const auto sentence =
        fmt::format("{} {}", distributed::name_of(rank, static_cast<int64_t>(ranks_.size())),
                    how_it_ended(ended));
    // As in a shell, a reader that has gone away is not worth a word. Misuse is the same on all
    // ranks, and what it is was said.
    const int status = shell_status(ended);
    const bool of_note = !signalled_ && status != 128 + SIGPIPE && status != kMisuse;
    if (of_note) std::cerr << fmt::format("deq: {}\n", sentence);  // one write: ranks write too
    // A rank that could say why it fails has done so.
    distributed::conclude(*distributed::part_of(store_, 0), sentence);
    first_failure_ = ended;
    next_step_ = LaunchClock::now() + kGrace;
  }

  void end_the_others() {
    send(asked_to_end_ ? SIGKILL : SIGTERM);
    asked_to_end_ = true;
    next_step_ = LaunchClock::now() + kLastGrace;
  }

  void send(int signal) {
    for (const auto& rank : ranks_) {
      if (!rank.ended) kill(rank.process, signal);
    }
  }

  c10::intrusive_ptr<c10d::TCPStore> store_;
  std::vector<Rank> ranks_;
  std::optional<int> first_failure_;
  bool signalled_ = false, asked_to_end_ = false;
  LaunchClock::time_point next_step_;
};

c10::intrusive_ptr<c10d::TCPStore> host_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;  // any that is free
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

}  // namespace

int64_t usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return CPU_COUNT(&cores);
}

int launch_local(int64_t processes, const std::vector<std::string>& command) {
  require<UsageError>(processes >= 1, "the number of processes is {}; allowed: 1 or more",
                      processes);
  require<UsageError>(!command.empty(), "there is no command to start");
  Ranks ranks(host_store());
  const SignalsForRanks signals;
  ranks.start(processes, Invocation(command));
  return ranks.wait();
}

}  // namespace deq::lab
