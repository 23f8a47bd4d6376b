#pragma once

#include <string>

#include "config/document.h"
#include "config/experiments.h"
#include "config/key_collector.h"
#include "config/reader.h"
#include "config/unknown_keys.h"
#include "config/writer.h"

namespace deq::config {

/// The document over the defaults, or a ConfigError.
template <class Config>
Config load(const Document& document) {
  Config config;
  experiment_of(document);  // a mistake here would make nonsense of all other messages
  KeyCollector collector;
  describe(collector, config);
  refuse_unknown_keys(document, collector.keys());
  Reader reader(document);
  describe(reader, config);
  return config;
}

template <class Config>
std::string write(Config config) {
  Writer writer;
  describe(writer, config);
  return writer.text();
}

}  // namespace deq::config
