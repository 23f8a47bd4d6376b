#include "replay/recordings.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace deq {

void warn_of_refused_recording(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string_view why =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  TORCH_WARN(
      "a part of an equilibrium model cannot be replayed as a graph and is evaluated step by "
      "step: ",
      why.substr(0, why.find('\n')));
}

}  // namespace deq
