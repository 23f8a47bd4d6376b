#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>  // writes sizes as [2, 3]

template <>
struct fmt::formatter<c10::ScalarType> : fmt::formatter<fmt::string_view> {
  auto format(c10::ScalarType type, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(c10::toString(type), context);
  }
};

template <>
struct fmt::formatter<c10::Device> : fmt::formatter<fmt::string_view> {
  auto format(const c10::Device& device, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(device.str(), context);
  }
};
