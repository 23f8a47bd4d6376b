#pragma once

#include "deq/core/error.h"

namespace deq::lab {

/// What the user of a program asked for cannot be done as asked. What was tried and failed is a
/// plain Error.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A configuration that is not allowed: one sentence with the file and line, the key, its value and
/// what is allowed.
class ConfigError : public UsageError {
 public:
  using UsageError::UsageError;
};

}  // namespace deq::lab
