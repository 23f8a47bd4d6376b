#pragma once

#include <array>
#include <streambuf>

namespace deq::lab::cli {

/// What std::cout writes through while one exists. Unlike std::cout's own it keeps the reason why
/// something could not be written. On a terminal every line appears at once.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  /// Writes what is left. Returns 0, or the errno of the first write that failed.
  int finish();

 protected:
  int_type overflow(int_type next) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  std::array<char, 1 << 13> buffer_;
  std::streambuf* before_;
  bool is_terminal_;
  int failure_ = 0;
};

/// From here on a reader that has gone, as in `deq train … 2>&1 | head -1`, ends no process: a
/// training goes on, and what is printed is lost.
void outlive_readers();

}  // namespace deq::lab::cli
