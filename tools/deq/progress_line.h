#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace deq::lab::cli {

/// "label [####....] 12/40  fact  fact" in less than `columns` columns: the bar gets shorter first,
/// then the last facts go, then the bar, and at last the beginning of the label.
std::string progress_line(const std::string& label, int64_t done, int64_t total,
                          const std::vector<std::string>& facts, size_t columns);

/// Of the terminal at standard error; where it does not say, what COLUMNS says, or 80.
size_t terminal_columns();

}  // namespace deq::lab::cli
