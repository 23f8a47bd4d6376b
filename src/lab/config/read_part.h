#pragma once

#include "lab/config/document.h"
#include "lab/config/key_collector.h"
#include "lab/config/reader.h"
#include "lab/config/unknown_keys.h"

namespace deq::lab::config {

/// The document over the defaults of a struct that has a description, or a ConfigError.
template <class Part>
Part read_part(const Document& document) {
  Part part;
  KeyCollector collector;
  describe(collector, part);
  refuse_unknown_keys(document, collector.keys());
  Reader reader(document);
  describe(reader, part);
  return part;
}

}  // namespace deq::lab::config
