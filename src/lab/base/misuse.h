#pragma once

#include <utility>

#include "deq/lab/base/errors.h"

namespace deq::lab {

/// Does what is made of values that the user wrote. What the library refuses of them, with an
/// Error, is a UsageError then.
template <class Work>
auto refusals_as_misuse(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace deq::lab
