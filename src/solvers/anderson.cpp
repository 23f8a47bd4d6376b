#include <utility>

#include "core/require.h"
#include "deq/solvers/mixing_rule.h"
#include "kernels/history/history.h"
#include "solvers/anderson_weights.h"
#include "solvers/methods.h"

// Anderson acceleration (Anderson 1965; Walker & Ni 2011), type II, one problem per sample.
//
//   gᵢ = f(zᵢ) − zᵢ, the last n ≤ m iterates kept;   H = [gᵢ·gⱼ] + ridge·I
//   α = argmin ‖Σ αᵢ gᵢ‖² + ridge·‖α‖²  with Σ αᵢ = 1,  so  α = H⁻¹1 / (1ᵀH⁻¹1)
//   z ← Σ αᵢ (zᵢ + β gᵢ) = Σ αᵢ fᵢ + (β − 1) Σ αᵢ gᵢ
//
// A step adds one row to [gᵢ·gⱼ]: the dots of the new g with the old ones, which the driver
// computes in the pass that makes g. Slots are used in turn. A sample that restarts forgets its
// older slots; the slabs stay for the others. A mixing rule is told all this and answers with
// another α and a β for every sample.

namespace deq {
namespace {

void require_like(const torch::Tensor& got, const torch::Tensor& expected) {
  require(got.sizes() == expected.sizes() && got.options().type_equal(expected.options()),
          "a mixing rule returned {} of {} on {}, must be {} of Double on the host", got.sizes(),
          got.scalar_type(), got.device().str(), expected.sizes());
}

class AndersonMethod final : public Method {
 public:
  explicit AndersonMethod(const Anderson& options)
      : options_(options),
        rules_(anderson_rules(options)),
        alpha_(static_cast<size_t>(options.memory)),
        system_(static_cast<size_t>(options.memory * options.memory)) {}

  // What is kept for every sample stays allocated from one solve to the next, and so do the small
  // systems: where f is cheap, memory would cost more than arithmetic.
  void begin() override {
    f_.clear();
    g_.clear();
    histories_.clear();
    steps_ = 0;
  }

  void step(Iteration& it) override {
    remember(it);
    const auto slots = static_cast<int64_t>(f_.size());
    const bool mixes = options_.beta != 1.0 || options_.mixing;
    // The combination's rows: every f, then (when β ≠ 1 or a rule chooses) every g, then z for the
    // frozen samples.
    std::vector<torch::Tensor> rows = f_;
    if (mixes) rows.insert(rows.end(), g_.begin(), g_.end());
    rows.push_back(it.z());
    const auto z_row = static_cast<int64_t>(rows.size()) - 1;
    auto coefficients = torch::zeros({it.batch(), z_row + 1}, torch::kDouble);
    auto c = coefficients.accessor<double, 2>();
    const auto take = [&](int64_t b, int64_t used, const double* alpha, double beta) {
      for (int64_t i = 0; i < used; ++i) {
        const int64_t slot = slot_of_age(i);
        c[b][slot] = alpha[i];
        if (mixes) c[b][slots + slot] = (beta - 1.0) * alpha[i];
      }
    };
    auto asked = options_.mixing ? empty_history(it.batch()) : MixingHistory();
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) {
        c[b][z_row] = 1.0;
        continue;
      }
      auto& history = histories_[static_cast<size_t>(b)];
      const int64_t used =
          anderson_weights(rules_, steps_, gram(b), history, system_.data(), alpha_.data());
      it.report().restarts += std::exchange(history.restarts, 0);
      it.report().ridge_raises += std::exchange(history.ridge_raises, 0);
      if (options_.mixing) {
        tell(b, used, asked);
      } else {
        take(b, used, alpha_.data(), options_.beta);
      }
    }
    if (options_.mixing) {
      const auto chosen = options_.mixing->weights(asked);
      require_like(chosen.alpha, asked.alpha);
      require_like(chosen.beta, asked.alpha.select(1, 0));
      const auto alpha = chosen.alpha.contiguous(), beta = chosen.beta.contiguous();
      for (int64_t b = 0; b < it.batch(); ++b) {
        if (!it.active(b)) continue;
        take(b, histories_[static_cast<size_t>(b)].length,
             alpha.const_data_ptr<double>() + b * options_.memory,
             beta.const_data_ptr<double>()[b]);
      }
    }
    auto next = it.slab();
    kernels::combine(rows, coefficients, next);
    // The slot that the next iterate will take is let go first: its slabs can be reused, and nobody
    // asks for its dots.
    std::vector<torch::Tensor> others = g_;
    if (slots == options_.memory) {
      const int64_t oldest = steps_ % options_.memory;
      f_[static_cast<size_t>(oldest)].reset();
      g_[static_cast<size_t>(oldest)].reset();
      others.erase(others.begin() + oldest);
    }
    rows.clear();
    it.move_to(next, others);
  }

 private:
  /// Takes the current f and g into the slot whose turn it is, and their dots into the Gram
  /// matrices.
  void remember(Iteration& it) {
    const int64_t slot = steps_ % options_.memory;
    if (slot == static_cast<int64_t>(f_.size())) {
      f_.emplace_back();
      g_.emplace_back();
    }
    f_[static_cast<size_t>(slot)] = it.f();
    g_[static_cast<size_t>(slot)] = it.g();
    ++steps_;
    gram_.resize(static_cast<size_t>(it.batch() * options_.memory * options_.memory));
    histories_.resize(static_cast<size_t>(it.batch()));
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) continue;
      remember_residual(rules_, steps_, it.squared_norm(b), it.dots(b), it.residual(b), gram(b),
                        histories_[static_cast<size_t>(b)]);
    }
  }

  int64_t slot_of_age(int64_t age) const {
    return older_slot((steps_ - 1) % options_.memory, age, options_.memory);
  }

  /// What a rule is told, with a history of one residual for the samples that rest.
  MixingHistory empty_history(int64_t batch) const {
    const int64_t m = options_.memory;
    return {.gram = torch::zeros({batch, m, m}, torch::kDouble),
            .length = torch::ones({batch}, torch::kLong),
            .alpha = torch::zeros({batch, m}, torch::kDouble),
            .beta = options_.beta,
            .step = steps_};
  }

  /// The sample's history and its least-squares weights, those in alpha_.
  void tell(int64_t b, int64_t used, MixingHistory& asked) {
    asked.length.accessor<int64_t, 1>()[b] = used;
    auto told = asked.gram.accessor<double, 3>()[b];
    auto alpha = asked.alpha.accessor<double, 2>()[b];
    for (int64_t i = 0; i < used; ++i) {
      const double* row = gram(b) + slot_of_age(i) * options_.memory;
      for (int64_t j = 0; j < used; ++j) told[i][j] = row[slot_of_age(j)];
      alpha[i] = alpha_[static_cast<size_t>(i)];
    }
  }

  double* gram(int64_t b) {
    return gram_.data() + static_cast<size_t>(b * options_.memory * options_.memory);
  }

  Anderson options_;
  AndersonRules rules_;
  std::vector<torch::Tensor> f_, g_;        // by slot
  std::vector<double> gram_;                // by sample, slot and slot
  std::vector<AndersonHistory> histories_;  // by sample
  int64_t steps_ = 0;
  std::vector<double> alpha_, system_;  // of the sample at hand
};

}  // namespace

std::unique_ptr<Method> make_method(const Anderson& options) {
  return std::make_unique<AndersonMethod>(options);
}

}  // namespace deq
