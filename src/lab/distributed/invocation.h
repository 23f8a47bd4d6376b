#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace deq::lab::distributed {

/// A command with the environment it is to be started in, which is at first the caller's own.
class Invocation {
 public:
  explicit Invocation(std::vector<std::string> command);

  void set(const std::string& name, const std::string& value);
  /// Where the caller's environment does not say otherwise.
  void set_default(const std::string& name, const std::string& value);

  /// Starts a process that ends with the thread that started it; gives its id. Its status is 127,
  /// as shells have it, where there is no such command.
  pid_t start() const;

 private:
  std::vector<std::string> command_, environment_;
};

}  // namespace deq::lab::distributed
