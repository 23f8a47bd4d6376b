#include "deq/nn/stream.h"

#include <limits>
#include <utility>

#include "core/require.h"

namespace deq {
namespace {

/// A state from which a solve is not worth going on. A budget that was spent is no such reason: the
/// next solve goes on where this one stopped.
bool leads_nowhere(const SampleReport& sample) {
  return sample.status == Status::Stagnated || sample.status == Status::Diverged ||
         sample.status == Status::NonFinite;
}

}  // namespace

double StreamCost::saved() const {
  if (compared == 0) return std::numeric_limits<double>::quiet_NaN();
  return 1 - static_cast<double>(compared_warm) / static_cast<double>(compared_cold);
}

Stream::Stream(Equilibrium layer, const StreamOptions& options)
    : layer_(std::move(layer)), options_(options) {
  require(!layer_.is_empty(), "a stream needs a layer, got an empty holder");
  require(options.compare_every >= 0, "stream: compare_every = {}, must be ≥ 0",
          options.compare_every);
  require(options.extrapolate >= 0 && options.extrapolate <= 1,
          "stream: extrapolate = {:g}, must be in [0, 1]", options.extrapolate);
}

Equilibrated Stream::next(const Inputs& inputs) {
  require(!layer_->cell()->is_training(),
          "a stream is for use, not for training: call eval() on the layer, or on its model");
  const torch::NoGradGuard no_grad;
  const auto start = take_start(inputs);
  const bool warm = !start.empty();
  auto result = layer_->forward(inputs, {.start = start});
  const auto evaluations = result.report.evaluations;
  ++cost_.inputs;
  cost_.evaluations += evaluations;
  keep(inputs, result);
  if (!warm) return result;
  ++cost_.warm;
  if (options_.compare_every > 0 && cost_.warm % options_.compare_every == 0) {
    ++cost_.compared;
    cost_.compared_warm += evaluations;
    cost_.compared_cold += layer_->forward(inputs).report.evaluations;
  }
  return result;
}

void Stream::reset() {
  state_.clear();
  state_before_.clear();
}

std::vector<Stream::Form> Stream::forms_of(const Inputs& inputs) {
  std::vector<Form> forms;
  for (const auto& tensor : inputs) {
    forms.push_back({tensor.sizes().vec(), tensor.scalar_type(), tensor.device()});
  }
  return forms;
}

State Stream::take_start(const Inputs& inputs) {
  auto start = std::exchange(state_, {});  // a solve that throws leaves none
  const auto before = std::exchange(state_before_, {});
  if (start.empty() || forms_of(inputs) != forms_) return {};
  if (!failed_.any().item<bool>()) {
    if (options_.extrapolate == 0) return start;
    state_before_ = start;
    for (size_t i = 0; i < before.size(); ++i) {
      start[i] = torch::lerp(before[i], start[i], 1 + options_.extrapolate);
    }
    return start;
  }
  const auto own = layer_->cell()->initial_state(inputs);
  const auto anew = failed_.to(start[0].device());
  for (size_t i = 0; i < start.size(); ++i) {
    std::vector<int64_t> rows(static_cast<size_t>(start[i].dim()), 1);
    rows[0] = -1;
    start[i] = torch::where(anew.view(rows), own[i], start[i]);
  }
  return start;
}

void Stream::keep(const Inputs& inputs, const Equilibrated& last) {
  const auto& samples = last.report.samples;
  failed_ = torch::empty({static_cast<int64_t>(samples.size())}, torch::kBool);
  for (size_t b = 0; b < samples.size(); ++b) {
    failed_.data_ptr<bool>()[b] = leads_nowhere(samples[b]);
  }
  if (failed_.all().item<bool>()) return;
  forms_ = forms_of(inputs);
  // The user may write into what next() gave.
  for (const auto& part : last.state) state_.push_back(part.detach().clone());
}

}  // namespace deq
