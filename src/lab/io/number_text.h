#pragma once

#include <string>

namespace deq::lab::io {

/// The shortest text that reads back as the same double, and as a floating-point number: "2.0", not
/// "2". JSON and TOML both take it, except the non-finite values ("nan", "inf", "-inf"), which only
/// TOML has.
std::string number_text(double value);

}  // namespace deq::lab::io
