#pragma once

#include <vector>

#include "lab/config/document.h"
#include "lab/config/key_collector.h"

namespace deq::lab::config {

/// Throws ConfigError for the document's first key that is not known, with the likeliest
/// correction.
void refuse_unknown_keys(const Document& document, const std::vector<KnownKey>& known);

}  // namespace deq::lab::config
