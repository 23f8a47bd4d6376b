#pragma once

#include <vector>

#include "config/document.h"
#include "config/key_collector.h"

namespace deq::config {

/// Throws ConfigError for the document's first key that is not known, with the likeliest
/// correction.
void refuse_unknown_keys(const Document& document, const std::vector<KnownKey>& known);

}  // namespace deq::config
