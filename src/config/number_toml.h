#pragma once

#include <string>
#include <type_traits>

#include "io/number_text.h"

namespace deq::config {

template <class Number>
std::string number_toml(Number value) {
  if constexpr (std::is_integral_v<Number>) {
    return std::to_string(value);
  } else {
    return io::number_text(value);
  }
}

}  // namespace deq::config
