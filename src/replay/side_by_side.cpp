#include "replay/side_by_side.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace deq {
namespace {

thread_local bool recording = false;

/// Streams beside this one, always the same: libraries keep memory for every stream that they see.
std::vector<c10::Stream> streams_beside(const c10::Stream& stream, size_t count) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::vector<c10::Stream>> known;
  const std::lock_guard lock(mutex);
  auto& beside = known[{stream.device_index(), stream.id()}];
  const c10::impl::VirtualGuardImpl device(stream.device_type());
  while (beside.size() < count) {
    const auto next = device.getStreamFromGlobalPool(stream.device());
    if (next != stream) beside.push_back(next);
  }
  return {beside.begin(), beside.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

RecordingScope::RecordingScope() : before_(std::exchange(recording, true)) {}

RecordingScope::~RecordingScope() {
  recording = before_;
}

void side_by_side(const torch::Device& device, size_t count,
                  const std::function<void(size_t)>& part) {
  if (!recording || !device.is_cuda() || count < 2) {
    for (size_t i = 0; i < count; ++i) part(i);
    return;
  }
  const auto own = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  const auto others = streams_beside(own, count - 1);
  c10::Event before(device.type());
  before.record(own);
  part(0);
  std::vector<c10::Event> done;
  for (size_t i = 1; i < count; ++i) {
    const auto& stream = others[i - 1];
    before.block(stream);
    const c10::StreamGuard there(stream);
    part(i);
    done.emplace_back(device.type()).record(stream);
  }
  for (const auto& event : done) event.block(own);
}

}  // namespace deq
