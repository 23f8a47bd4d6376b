#pragma once

#include <fmt/format.h>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "deq/core/error.h"

namespace deq::lab::io {

/// Throws "cannot <what> <path>: <the system's reason>".
[[noreturn]] inline void throw_system_error(std::string_view what,
                                            const std::filesystem::path& path, int code) {
  const std::string reason = std::generic_category().message(code);
  throw Error(fmt::format("cannot {} {}: {}", what, path.string(), reason));
}

}  // namespace deq::lab::io
