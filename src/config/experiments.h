#pragma once

#include <string>
#include <string_view>

#include "config/document.h"

namespace deq::config {

inline constexpr std::string_view kExperimentKey = "experiment";
inline constexpr std::string_view kSynthetic = "synthetic";
inline constexpr std::string_view kVision = "vision";
inline constexpr std::string_view kLanguage = "language";
inline constexpr std::string_view kSegmentation = "segmentation";

/// The document's experiment, one of those there are; otherwise throws ConfigError.
std::string experiment_of(const Document& document);

}  // namespace deq::config
