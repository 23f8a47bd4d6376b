#pragma once

#include <torch/types.h>

#include <string>

namespace deq::lab::cli {

/// What host and device do from here on, as a file that browsers and Perfetto show. Without
/// write(), none is written.
class Trace {
 public:
  /// An empty path asks for none. Throws UsageError where no file can be written at `path`, before
  /// anything is traced.
  explicit Trace(std::string path);
  ~Trace();

  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  Trace(Trace&&) = delete;
  Trace& operator=(Trace&&) = delete;

  bool asked_for() const { return !path_.empty(); }
  void begin(const torch::Device& device);
  void write();  ///< ends it; an Error where the file cannot be written

 private:
  std::string path_;
  bool running_ = false;
};

}  // namespace deq::lab::cli
