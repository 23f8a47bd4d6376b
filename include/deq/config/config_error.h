#pragma once

#include "deq/core/error.h"

namespace deq {

/// A configuration that cannot be: one sentence with the place, the key, its value and what is
/// allowed.
class ConfigError : public UsageError {
 public:
  using UsageError::UsageError;
};

}  // namespace deq
