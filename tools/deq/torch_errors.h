#pragma once

#include <string>
#include <string_view>

// torch's errors, some of which fill a page, in one sentence.

namespace deq::lab::cli {

/// Without the trace and the hints for developers that follow.
std::string first_line(std::string_view text);

/// Of errors that torch throws without saying so in their type, as its CPU allocator does.
bool is_out_of_memory(std::string_view text);

/// What ran out, how much was asked for as far as torch's text tells, and what to lower in a
/// training.
std::string out_of_memory(std::string_view text, bool training);

}  // namespace deq::lab::cli
