#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace deq::lab {

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b);

/// How far from a word somebody who meant it may have typed.
size_t close_enough(std::string_view typed);

/// The name that was likely meant; empty where none comes close.
std::string_view likely_name(std::string_view typed, const std::vector<std::string_view>& names);

}  // namespace deq::lab
