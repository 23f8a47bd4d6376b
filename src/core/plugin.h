#pragma once

#include <string>

namespace deq {

/// Loads the shared library `file` from the folder of libdeq.so. Says what went wrong, or nothing.
std::string load_plugin(const std::string& file);

}  // namespace deq
