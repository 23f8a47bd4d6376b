#pragma once

#include <functional>

namespace deq::lab::cli {

/// The bytes that the operations of `work` read and write: their arguments and results, each whole,
/// except views and memory that is only allocated. What an operation keeps to itself is not seen,
/// and neither is what a graph replays.
double bytes_moved(const std::function<void()>& work);

}  // namespace deq::lab::cli
