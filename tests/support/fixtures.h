#pragma once

#include <filesystem>
#include <string>

namespace deq::test {

/// A file of tests/fixtures/, or of the folder that DEQ_FIXTURES names.
std::filesystem::path fixture(const std::string& file);

}  // namespace deq::test
