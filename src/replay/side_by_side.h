#pragma once

#include <torch/types.h>

#include <functional>

namespace deq {

/// While it lives, what this thread enqueues is being recorded.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  bool before_;
};

/// Calls part(0), …, part(count − 1) one after the other; none may need what another one makes. In
/// a recording each enqueues on a stream of its own, between what was enqueued before this call and
/// what is after it: a GPU then works on them at the same time, where each alone would leave it
/// half idle. The first part has priority. So that memory is not reused too early, a part must not
/// be the last to hold what it did not make itself. (Outside of recordings the host is what a small
/// part waits for.)
void side_by_side(const torch::Device& device, size_t count,
                  const std::function<void(size_t)>& part);

}  // namespace deq
