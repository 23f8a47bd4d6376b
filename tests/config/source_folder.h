#pragma once

#include <filesystem>

namespace deq::lab {

inline const std::filesystem::path kSource = DEQ_SOURCE_DIR;

}  // namespace deq::lab
