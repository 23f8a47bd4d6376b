#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <optional>
#include <vector>

#include "deq/solvers/method.h"
#include "solvers/decisions.h"
#include "solvers/device_notes.h"

namespace deq {

/// The number of active samples, written by the device and read by the host: the only thing the
/// host learns from a solve on a device before it ends.
class ActiveCount {
 public:
  explicit ActiveCount(const torch::Device& device);
  ~ActiveCount();  // waits: the device must not write into memory that is someone else's by then
  ActiveCount(const ActiveCount&) = delete;
  ActiveCount& operator=(const ActiveCount&) = delete;

  at::Tensor& memory() { return memory_; }
  /// The work enqueued so far leaves the count that `wait` gives.
  void mark();
  int wait() const;

 private:
  torch::Device device_;
  at::Tensor memory_;  // one int32, pinned
  std::optional<c10::Event> written_;
};

/// Where a method goes next, and the slabs whose dots with the new g it wants. With `newest`, one
/// of these rows, it wants its dots with all of them too.
struct Move {
  torch::Tensor z;
  std::vector<torch::Tensor> rows{};
  std::optional<torch::Tensor> newest{};
};

/// One solve in progress whose decisions are all made where the slabs are; the counterpart of
/// Iteration. The host only enqueues: nothing that a method sees here has a value yet. Whatever is
/// enqueued after all samples have stopped changes nothing.
class DeviceIteration {
 public:
  DeviceIteration(const Problem& problem, const SolverOptions& options, SlabPool& pool,
                  const torch::Tensor& z0);

  int64_t batch() const { return z_.size(0); }
  /// The most iterates that are observed.
  int64_t budget() const { return budget_; }
  const torch::Tensor& z() const { return z_; }
  /// f(z), until the next move.
  const torch::Tensor& f() const { return f_; }
  torch::Tensor lasting_f() const { return problem_.overwrites_results ? f_.clone() : f_; }
  const torch::Tensor& g() const { return g_; }
  const torch::Tensor& sums() const { return sums_; }  ///< of the last observation
  const torch::Tensor& samples() const { return samples_; }
  const torch::Tensor& marks() const { return marks_; }

  bool budget_left() const { return observations_ < budget_; }
  /// Whether every sample has stopped. The host waits for the last judgement, so it asks when the
  /// next iterate has been enqueued already and the device works on; where no tolerance can be met
  /// it does not ask at all.
  bool stopped() const;

  /// The next iterate: rows combined by each sample's coefficients, or with `step` z plus this
  /// combination, which `step` then holds. Samples that have stopped stay at their best.
  /// Where the problem has a buffer for z, it overwrites the present one there.
  torch::Tensor next(torch::TensorList rows, const torch::Tensor& coefficients,
                     const std::optional<torch::Tensor>& step = std::nullopt);

  /// Evaluates f there and judges every sample.
  void move_to(const Move& move);

  torch::Tensor slab() { return pool_.take(); }
  /// One of bfloat16, where the kernels take it.
  torch::Tensor half_slab();
  /// An uninitialised tensor of float64.
  torch::Tensor numbers(at::IntArrayRef shape) const;

  /// What a method keeps of every sample, at first zeros, and what has become of it at the end.
  template <class Struct>
  torch::Tensor histories() {
    static_assert(sizeof(Struct) <= kHistoryBytes);
    return notes_.take<Struct>(batch());
  }
  template <class Struct>
  std::vector<Struct> on_host(const torch::Tensor& histories) {
    return notes_.on_host<Struct>(histories);
  }

  /// Waits for the device.
  Solution finish(Report report);

 private:
  static constexpr int64_t kHistoryBytes = 64;  // of a sample, at most

  torch::Tensor slab_for_z() {
    return problem_.z_buffer.defined() ? problem_.z_buffer : pool_.take();
  }

  const Problem& problem_;
  int64_t known_;  // images: 1 where that of the start is
  JudgingRules rules_;
  int64_t budget_;
  SlabPool& pool_;
  torch::Tensor z_, f_, g_, best_;
  DeviceNotes notes_;
  torch::Tensor samples_, residuals_, marks_;  // in the notes
  torch::Tensor sums_;
  ActiveCount active_;
  int64_t observations_ = 0;
};

}  // namespace deq
