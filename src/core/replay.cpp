#include "deq/core/replay.h"

namespace deq {

std::string_view replay_name(Replay replay) {
  switch (replay) {
    case Replay::Automatic:
      return "automatic";
    case Replay::Off:
      return "off";
    case Replay::Checked:
      return "checked";
  }
  return "unknown";
}

}  // namespace deq
