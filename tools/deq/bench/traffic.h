#pragma once

#include <functional>

namespace deq::cli {

/// The bytes that the operations of `work` read and write: their arguments and results, each whole,
/// but for views and memory that is only taken. What an operation keeps to itself is not seen, and
/// neither is what a graph replays.
double bytes_moved(const std::function<void()>& work);

}  // namespace deq::cli
