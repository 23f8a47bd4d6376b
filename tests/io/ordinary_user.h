#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace deq::test {

/// While it lives, a test that root runs is nobody's: root writes where it likes. The folder
/// becomes nobody's too.
class OrdinaryUser {
 public:
  explicit OrdinaryUser(const std::filesystem::path& folder) {
    if (!was_root_) return;
    EXPECT_EQ(::chown(folder.c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
  ~OrdinaryUser() {
    if (!was_root_) return;
    EXPECT_EQ(::seteuid(0), 0);
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;

  const bool was_root_ = ::geteuid() == 0;
};

}  // namespace deq::test
