#pragma once

#include <string_view>
#include <vector>

namespace deq {

/// Whether a layer's passes are recorded on a GPU and replayed, which spares the host's work.
enum class Replay {
  Automatic,  ///< where the cell says what it depends on: Cell::replay_key
  Off,        ///< every pass is evaluated
  /// As Automatic, but what is replayed is evaluated too, and an Error names what differs.
  Checked,
};

/// "automatic", "off", "checked".
std::string_view replay_name(Replay replay);

/// The numbers of a cell's own that decide what it computes.
using ReplayKey = std::vector<double>;

}  // namespace deq
