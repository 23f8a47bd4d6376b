#pragma once

#include <torch/nn/module.h>

#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "deq/core/replay.h"

namespace deq {

/// Everything that a recording takes for granted: shapes and types of what it is given; modes,
/// options, parameters and buffers of its modules, with their addresses; precision,
/// determinism and the device's stream.
class RecordingSignature {
 public:
  explicit RecordingSignature(const torch::Device& device);

  template <std::integral Number>
  RecordingSignature& add(Number number) {
    return mix(static_cast<uint64_t>(number));
  }
  RecordingSignature& add(double number) { return mix(std::bit_cast<uint64_t>(number)); }
  RecordingSignature& add(const ReplayKey& key);
  /// Its type and shape.
  RecordingSignature& add(const torch::Tensor& tensor);
  /// And its address.
  RecordingSignature& add_address(const torch::Tensor& tensor);

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 in it for a pointer
  auto operator<=>(const RecordingSignature& other) const = default;

 private:
  RecordingSignature& mix(uint64_t bits);
  void add_precision(const torch::Device& device);
  void add_algorithms();

  // A hash of 128 bits of all numbers: there are thousands, and every pass has a signature.
  uint64_t first_ = 0, second_ = 0;
};

/// What recordings take for granted of modules. How to read a module's options is found out anew
/// only when there are other submodules than before.
class ModuleStates {
 public:
  void add(const torch::nn::Module& module, RecordingSignature& signature);

 private:
  /// Adds the options of a module that a user can change.
  using AddOptions = void (*)(const torch::nn::Module& module, RecordingSignature& signature);

  struct Part {
    std::weak_ptr<torch::nn::Module> module;
    AddOptions add_options;
  };
  std::mutex mutex_;
  std::map<const torch::nn::Module*, std::vector<Part>> known_;
};

}  // namespace deq
