#pragma once

#include <cstdint>
#include <vector>

#include "deq/nn/equilibrium.h"

namespace deq {

struct StreamOptions {
  /// ≥ 0. One in so many inputs is solved from the cell's own start as well, to know what is saved;
  /// 0 is none.
  int64_t compare_every = 0;
  /// In [0, 1]. A solve begins so much further along the way from the last but one equilibrium to
  /// the last: for inputs that go on moving as they did, not for ones that jump to and fro.
  double extrapolate = 0;
};

/// What a stream has cost so far.
struct StreamCost {
  int64_t inputs = 0;
  int64_t warm = 0;         ///< of these, begun at the equilibrium before
  int64_t evaluations = 0;  ///< of f, those of comparisons not counted
  int64_t compared = 0;     ///< inputs solved in both ways, and what each way took
  int64_t compared_warm = 0;
  int64_t compared_cold = 0;

  /// The share of a cold solve's evaluations that a warm one spares; NaN before a comparison.
  double saved() const;
};

/// Equilibria of inputs that follow each other and change little, such as the pictures of a video.
/// Each solve begins where the one before ended, sample by sample; it begins at the cell's own
/// start at first, where inputs have another shape, type or device, and for samples whose last
/// solve stagnated, diverged or was not finite. Without gradients. Serves one stream, one thread.
class Stream {
 public:
  /// The layer's cell must be in eval mode when next() is called.
  explicit Stream(Equilibrium layer, const StreamOptions& options = {});

  Equilibrated next(const torch::Tensor& x) { return next(Inputs{x}); }
  Equilibrated next(const Inputs& inputs);

  /// The next input begins anew, as after a cut. The cost is kept.
  void reset();

  const StreamCost& cost() const { return cost_; }

 private:
  struct Form {
    std::vector<int64_t> sizes;
    torch::ScalarType type;
    torch::Device device;
    bool operator==(const Form&) const = default;
  };
  static std::vector<Form> forms_of(const Inputs& inputs);
  /// The last equilibrium, empty where it is no use for these inputs.
  State take_start(const Inputs& inputs);
  void keep(const Inputs& inputs, const Equilibrated& last);

  Equilibrium layer_;
  StreamOptions options_;
  StreamCost cost_;
  std::vector<Form> forms_;  // of the last inputs
  State state_;              // the last equilibrium; empty where the next solve begins anew
  State state_before_;       // and the last but one, where its way is to be followed
  torch::Tensor failed_;     // [B] on the host: the samples that begin anew
};

}  // namespace deq
