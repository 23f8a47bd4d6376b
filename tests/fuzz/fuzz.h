#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "deq/core/error.h"
#include "deq/lab/io/safetensors.h"

// A harness is one file that defines what is declared first here; fuzz.cpp holds it to the
// promises: only Errors of one line come out, and memory stays within the input's size.

namespace deq::fuzz {

/// Reads the input as the harness's kind of file. It may throw Errors, and nothing else.
void read(std::string_view input);

/// What may be allocated beside ten times the input's size.
extern const size_t kSpareBytes;

/// What this input may allocate besides: for what is in it that takes more than its bytes.
void allow(size_t bytes);

/// Ends the process, which is how a fuzzer learns that a promise was broken.
void promise(bool kept, const char* what);

/// A folder of this process's own; removed at its end. Everything in it may be overwritten.
const std::filesystem::path& folder();

/// Puts the bytes into a file of that folder, without waiting for the disk.
std::filesystem::path put(const std::string& name, std::string_view bytes);

/// The input as a safetensors file, where it is one: what a file with the right checksum may hold.
std::optional<lab::TensorFile> tensors_in(std::string_view input);

/// Calls what may throw Errors, and goes on after it.
template <class Action>
void attempt(const Action& action);

/// Takes inputs of several parts apart.
class Parts {
 public:
  explicit Parts(std::string_view input) : rest_(input) {}

  uint8_t byte() {
    const auto one = take(1);
    return one.empty() ? uint8_t{0} : static_cast<uint8_t>(one[0]);
  }
  /// As long as the two bytes before it say, or what there is; all of it where they are 0xffff.
  std::string_view text() {
    const size_t low = byte(), high = byte(), length = high * 256 + low;
    return take(length == 0xffff ? rest_.size() : length);
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view take(size_t count) {
    const auto part = rest_.substr(0, count);
    rest_.remove_prefix(part.size());
    return part;
  }

  std::string_view rest_;
};

/// An Error's message is one line that says something.
void require_sentence(const char* message);

template <class Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    require_sentence(error.what());
  }
}

}  // namespace deq::fuzz
