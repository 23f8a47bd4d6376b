#pragma once

#include <string_view>

namespace deq::lab::config {

inline constexpr std::string_view kExperimentKey = "experiment";
inline constexpr std::string_view kSynthetic = "synthetic";
inline constexpr std::string_view kVision = "vision";
inline constexpr std::string_view kLanguage = "language";
inline constexpr std::string_view kSegmentation = "segmentation";
inline constexpr std::string_view kReasoning = "reasoning";

}  // namespace deq::lab::config
