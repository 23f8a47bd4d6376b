#pragma once

#include <string>

namespace deq::lab {

/// docs/config.md: every key of every experiment with what is allowed, its default and its meaning.
std::string reference_markdown();

}  // namespace deq::lab
