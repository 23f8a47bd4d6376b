#pragma once

#include <string_view>

// Files that the build puts into the library, so that the program needs none beside it.

namespace deq::lab::assets {

std::string_view plotly_js();
std::string_view report_html();
std::string_view report_css();
std::string_view report_js();

}  // namespace deq::lab::assets
