#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace deq::test {

/// Collects torch's warnings of this thread while it lives, instead of printing them.
class CollectedWarnings final : c10::WarningHandler {
 public:
  CollectedWarnings() : here_(this) {}

  const std::vector<std::string>& messages() const { return messages_; }

 private:
  void process(const c10::Warning& warning) override { messages_.push_back(warning.msg()); }

  std::vector<std::string> messages_;
  c10::WarningUtils::WarningHandlerGuard here_;
};

}  // namespace deq::test
