#pragma once

#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace deq::lab {

/// work(0), …, work(tasks − 1), each in a thread of its own, the first in this one. When several
/// throw, what the first of them by number threw goes on.
template <class Work>
void in_parallel(int64_t tasks, const Work& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(tasks));
  const auto attempt = [&](int64_t task) {
    try {
      work(task);
    } catch (...) {
      errors[static_cast<size_t>(task)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t task = 1; task < tasks; ++task) threads.emplace_back(attempt, task);
    if (tasks > 0) attempt(0);
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace deq::lab
