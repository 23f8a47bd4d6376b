#include "deq/lab/distributed/launch.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>
#include <fstream>

#include <chrono>
#include <csignal>
#include <thread>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "distributed/environment.h"
#include "distributed/ranks.h"

namespace deq::lab {
namespace {

using test::Environment;
using test::Variables;
using namespace std::chrono_literals;

struct Result {
  int status;
  std::string errors;
};

Result launch(int64_t processes, const std::vector<std::string>& command) {
  ::testing::internal::CaptureStderr();
  const int status = launch_local(processes, command);
  return {status, ::testing::internal::GetCapturedStderr()};
}

Result launch_shell(int64_t processes, const std::string& script) {
  return launch(processes, {"sh", "-c", script});
}

/// Runs in a process of its own, so that signals can be sent to it; gives its id.
pid_t launch_aside(int64_t processes, const std::string& script) {
  const auto child = fork();
  if (child != 0) return child;
  _exit(launch_local(processes, {"sh", "-c", script}));
}

int status_of(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::filesystem::path fresh_folder() {
  auto folder = std::filesystem::temp_directory_path() / ("deq-launch-" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

/// It must come: ctest ends a test that hangs.
void wait_for(const std::filesystem::path& file) {
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(10ms);
}

pid_t number_in(const std::filesystem::path& file) {
  pid_t number = 0;
  std::ifstream(file) >> number;
  return number;
}

/// One that has ended may still wait for its new parent to ask for its status.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state = "gone";
  file >> id >> name >> state;
  return state != "gone" && state != "Z";
}

TEST(Launch, SucceedsWhenAllDo) {
  const Environment environment(Variables{});
  const auto result = launch_shell(
      3,
      "test $WORLD_SIZE = 3 && test $RANK = $LOCAL_RANK && test -n \"$MASTER_PORT\" && "
      "test $MASTER_ADDR = 127.0.0.1 && test $RANK -lt 3 && test $OMP_WAIT_POLICY = PASSIVE");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
}

TEST(Launch, DividesTheCores) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(launch_shell(64, "test $OMP_NUM_THREADS -ge 1 && test $OMP_NUM_THREADS -le 16").status,
            0);
  const Environment environment(Variables{{"OMP_NUM_THREADS", "13"}});
  EXPECT_EQ(launch_shell(2, "test $OMP_NUM_THREADS = 13").status, 0);
}

TEST(Launch, TellsWhichRankFailedAndHow) {
  const auto result = launch_shell(3, "test $RANK != 1 || exit 7");
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(result.errors, "deq: rank 1 of 3 failed with status 7\n");
}

TEST(Launch, GivesSignalsAsShellsDo) {
  const auto result = launch_shell(2, "test $RANK = 1 || kill -SEGV $$");
  EXPECT_EQ(result.status, 128 + SIGSEGV);
  EXPECT_EQ(result.errors, "deq: rank 0 of 2 was ended by signal 11 (Segmentation fault)\n");
}

TEST(Launch, SaysNothingOfAReaderThatIsGone) {
  for (const std::string end : {"kill -PIPE $$", "exit 141"}) {
    const auto result = launch_shell(2, "test $RANK = 1 || " + end);
    EXPECT_EQ(result.status, 128 + SIGPIPE) << end;
    EXPECT_EQ(result.errors, "") << end;
  }
}

// A rank that was asked for what cannot be has said so.
TEST(Launch, SaysNothingOfMisuse) {
  const auto result = launch_shell(2, "exit 2");
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.errors, "");
}

TEST(Launch, OfWhatDoesNotExist) {
  const auto result = launch(1, {"/nowhere/deq"});
  EXPECT_EQ(result.status, 127);
  EXPECT_NE(result.errors.find("cannot start /nowhere/deq: No such file"), std::string::npos);
}

TEST(Launch, EndsRanksThatDoNotEndByThemselves) {
  // Rank 0 fails when rank 1 is ready: the first signal asks it, the second it cannot refuse.
  const auto folder = fresh_folder();
  const auto result = launch_shell(
      2, "cd " + folder.string() +
             "; if test $RANK = 0; then until test -e rank; do sleep 0.1; done; exit 3; fi; "
             "trap ': > asked' TERM; echo $$ > part; mv part rank; while :; do sleep 0.1; done");
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.errors, "deq: rank 0 of 2 failed with status 3\n");
  EXPECT_TRUE(std::filesystem::exists(folder / "asked"));
  EXPECT_FALSE(runs(number_in(folder / "rank")));
  std::filesystem::remove_all(folder);
}

TEST(Launch, PassesSignalsOn) {
  const auto folder = fresh_folder();
  const auto launcher = launch_aside(2, "trap 'exit 5' TERM; touch " + (folder / "$RANK").string() +
                                            "; while :; do sleep 0.1; done");
  wait_for(folder / "0");
  wait_for(folder / "1");
  kill(launcher, SIGTERM);
  EXPECT_EQ(status_of(launcher), 5);
  std::filesystem::remove_all(folder);
}

TEST(Launch, LeavesNoRankBehind) {
  const auto folder = fresh_folder();
  const auto launcher = launch_aside(1, "echo $$ > " + (folder / "part").string() + "; mv " +
                                            (folder / "part").string() + " " +
                                            (folder / "rank").string() + "; exec sleep 3600");
  wait_for(folder / "rank");
  const auto rank = number_in(folder / "rank");
  ASSERT_GT(rank, 0);
  kill(launcher, SIGKILL);
  EXPECT_EQ(status_of(launcher), 128 + SIGKILL);
  while (runs(rank)) std::this_thread::sleep_for(10ms);
  std::filesystem::remove_all(folder);
}

TEST(Launch, RefusesNothing) {
  EXPECT_THROW(launch_local(0, {"true"}), UsageError);
  EXPECT_THROW(launch_local(2, {}), UsageError);
}

TEST(Launch, OfAWorld) {
  const Environment environment(Variables{{test::kScenarioVariable, "exchange"}});
  const auto result = launch(2, {"/proc/self/exe"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
}

TEST(Launch, TellsAWorldHowARankEnded) {
  const Environment environment(Variables{{test::kScenarioVariable, "killed"}});
  const auto result = launch(3, {"/proc/self/exe"});
  EXPECT_EQ(result.status, 128 + SIGKILL);
  const std::string sentence = "rank 1 of 3 was ended by signal 9 (Killed)\n";
  EXPECT_EQ(result.errors, "deq: " + sentence + sentence + sentence);
}

}  // namespace
}  // namespace deq::lab
