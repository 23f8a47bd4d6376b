#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace deq {

/// Everything that a recording takes for granted: shapes and types of what it is given, the places
/// in memory of parameters and buffers, mode, precision and the device's stream.
class RecordingSignature {
 public:
  explicit RecordingSignature(const torch::Device& device);

  RecordingSignature& add(int64_t number);
  RecordingSignature& add(const torch::Tensor& tensor);
  /// Where it keeps them, and which are trained.
  RecordingSignature& add_places(const std::vector<torch::Tensor>& tensors);

  bool operator==(const RecordingSignature& other) const { return numbers_ == other.numbers_; }
  bool operator<(const RecordingSignature& other) const { return numbers_ < other.numbers_; }

 private:
  std::vector<int64_t> numbers_;
};

/// The parameters and buffers of modules. Gathering them costs more than all that the host does for
/// a small solve, so they are gathered anew only when a module has other submodules than before:
/// each registers all that it has before its first pass.
class ModuleTensors {
 public:
  using Tensors = std::shared_ptr<const std::vector<torch::Tensor>>;

  Tensors of(const torch::nn::Module& module);

 private:
  struct Entry {
    std::vector<std::weak_ptr<torch::nn::Module>> parts;
    Tensors tensors;
  };

  std::mutex mutex_;
  std::map<const torch::nn::Module*, Entry> entries_;
};

/// Says once that something is evaluated where it could be faster.
void warn_of_refused_recording(const std::exception& error);

/// Recordings by what they are for, at most four. May be used from several threads.
template <class Recorded>
class Recordings {
 public:
  /// Adds a module of those that are recorded to a signature.
  void add(const torch::nn::Module& module, RecordingSignature& signature) {
    signature.add_places(*tensors_.of(module)).add(module.is_training() ? 1 : 0);
  }

  /// One for the caller alone, until the last reference goes; `make` makes it at the second call
  /// with a signature (which may never come). None before that, while too many are in use, and
  /// where it cannot be made.
  std::shared_ptr<Recorded> lend(const RecordingSignature& signature,
                                 const std::function<std::shared_ptr<Recorded>()>& make) {
    const std::lock_guard lock(mutex_);
    if (seen_.size() > kMostSignatures) seen_.clear();
    if (seen_.insert(signature).second || refused_.contains(signature)) return nullptr;
    if (auto free = find_free(signature)) return free;
    if (!make_room()) return nullptr;
    try {
      entries_.push_front({signature, make()});
      return entries_.front().recorded;
    } catch (const std::exception& error) {
      refused_.insert(signature);
      warn_of_refused_recording(error);
      return nullptr;
    }
  }

 private:
  static constexpr size_t kMost = 4;               // each holds the memory of a pass with its graph
  static constexpr size_t kMostSignatures = 1024;  // before they are forgotten

  struct Entry {
    RecordingSignature signature;
    std::shared_ptr<Recorded> recorded;  // nobody else holds it while it is free
    bool free() const { return recorded.use_count() == 1; }
  };

  std::shared_ptr<Recorded> find_free(const RecordingSignature& signature) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!entry->free() || entry->signature != signature) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entries_.front().recorded;
    }
    return nullptr;
  }

  bool make_room() {
    if (entries_.size() < kMost) return true;
    for (auto entry = entries_.end(); entry != entries_.begin();) {
      if (!(--entry)->free()) continue;
      entries_.erase(entry);
      return true;
    }
    return false;
  }

  ModuleTensors tensors_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last comes first
  std::set<RecordingSignature> seen_, refused_;
};

}  // namespace deq
