#pragma once

#include <utility>

#include "core/format.h"
#include "deq/core/error.h"

namespace deq {

/// Throws an Error (or another Exception) unless `ok`. The message is written only then.
template <class Exception = Error, class... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) throw Exception(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace deq
