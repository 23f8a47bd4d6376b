#pragma once

#include <array>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "data/image_files.h"
#include "deq/lab/data/text/corpus.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::test {

constexpr std::array kSplits{lab::CorpusSplit::Train, lab::CorpusSplit::Valid,
                             lab::CorpusSplit::Test};

/// A folder for texts, and random ones.
class CorpusFolder : public test::Seeded {
 protected:
  void put(const std::string& name, const std::string& text) { put_file(folder_ / name, text); }

  /// A text with words of very different frequency, blanks here and there and empty lines.
  std::string draw_text(int64_t lines, int64_t different) {
    std::string text;
    for (int64_t i = 0; i < lines; ++i) {
      for (auto left = random_() % 12; left > 0; --left) {
        const double share = std::generate_canonical<double, 53>(random_);
        const auto word = static_cast<int64_t>(std::pow(static_cast<double>(different), share));
        text += std::string(random_() % 3 == 0, ' ') + "w" + std::to_string(word) + " ";
      }
      text += '\n';
    }
    return text;
  }

  lab::CorpusOptions options(int64_t threads = 2) {
    return {.threads = threads, .warn = [this](const auto& line) { warnings_.push_back(line); }};
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::mt19937_64 random_{test::seed()};
  std::vector<std::string> warnings_;
};

}  // namespace deq::test
