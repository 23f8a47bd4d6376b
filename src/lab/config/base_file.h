#pragma once

#include <string>

#include "lab/config/document.h"

namespace deq::lab::config {

/// The table of the file `source`, laid over the file that its key `base` names (relative to
/// `source`, and with a base of its own where it has one). Throws ConfigError where that file
/// cannot be read or leads back to itself.
Table with_base(Table table, const std::string& source);

}  // namespace deq::lab::config
