#pragma once

#include <c10/util/StringUtil.h>

#include <stdexcept>
#include <string>

namespace deq {

/// Something could not be done: an option, a shape or a file that cannot be. The message is one
/// sentence for the user. Numerical trouble never throws; it is named in a Report.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the user of a program asked for cannot be done as asked (as against: it was tried and
/// failed).
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Throws an Error (or another Exception) with the concatenated parts unless `ok`.
template <class Exception = Error, class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw Exception(c10::str(parts...));
}

}  // namespace deq
