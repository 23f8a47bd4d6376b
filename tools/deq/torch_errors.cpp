#include "torch_errors.h"

#include <fmt/format.h>

#include <regex>

namespace deq::lab::cli {
namespace {

/// "2.00 GiB" of "Tried to allocate 2.00 GiB", "800000000 bytes" of "you tried to allocate …".
std::string amount_in(const std::string& text) {
  static const std::regex kAmount("ried to allocate ([0-9.]+ [A-Za-z]+)");
  std::smatch found;
  return std::regex_search(text, found, kAmount) ? found[1].str() : "";
}

}  // namespace

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

bool is_out_of_memory(std::string_view text) {
  return text.find("t allocate memory") != std::string_view::npos ||
         text.find("out of memory") != std::string_view::npos;
}

std::string out_of_memory(std::string_view text, bool training) {
  const std::string whole(text);
  const auto amount = amount_in(whole);
  const bool of_a_gpu = whole.find("CUDA") != std::string::npos;
  return fmt::format("out of memory{}{}{}", of_a_gpu ? " on the GPU" : "",
                     amount.empty() ? "" : fmt::format(" ({} more were asked for)", amount),
                     training ? ": lower train.batch_size or raise train.accumulation, which "
                                "computes a batch in parts"
                              : "");
}

}  // namespace deq::lab::cli
