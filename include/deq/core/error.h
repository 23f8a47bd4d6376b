#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace deq {

/// Something could not be done: an option is out of its range, a shape does not fit, a file cannot
/// be used. The message is one sentence for the user. Numerical trouble never throws; it is named
/// in a Report.
class Error : public std::runtime_error {
 public:
  /// What a message quotes of a file may hold the ends of lines: they become blanks.
  explicit Error(std::string message) : std::runtime_error(in_one_line(std::move(message))) {}

 private:
  static std::string in_one_line(std::string message) {
    std::replace(message.begin(), message.end(), '\n', ' ');
    return message;
  }
};

}  // namespace deq
