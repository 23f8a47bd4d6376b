#pragma once

#include <string>

namespace deq::io {

/// The shortest text that reads back as the same double, and as a floating-point number: "2.0", not
/// "2". JSON and TOML both take it, but for the non-finite values ("nan", "inf", "-inf"), which are
/// TOML alone.
std::string number_text(double value);

}  // namespace deq::io
