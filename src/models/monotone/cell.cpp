#include "deq/models/monotone/cell.h"

#include <cmath>
#include <utility>

#include "core/require.h"
#include "models/module_tree.h"
#include "models/monotone/operator.h"

// Winston and Kolter, Monotone operator equilibrium networks, 2020. With M = I − W, c = U x + b,
// V = (I + αM)⁻¹ and R = ReLU, which keeps a border of zeros, so that what wraps around there
// amounts to a padding by zeros:
//
//   forward–backward     z ← R(z − α(M z − c))
//   Peaceman–Rachford    z = R(u),  v = 2z − u,  u ← 2V(v + αc) − v

namespace deq::models {
namespace {

using torch::Tensor;

constexpr Tensor MonotoneTier::*kTierParts[] = {&MonotoneTier::a,    &MonotoneTier::a_transpose,
                                                &MonotoneTier::skew, &MonotoneTier::down,
                                                &MonotoneTier::core, &MonotoneTier::coupling};

std::vector<MonotoneTier> tiers_in(const Context& context) {
  require(context.size() % std::size(kTierParts) == 1,
          "monotone: this context was not made by the cell's prepare()");
  std::vector<MonotoneTier> tiers(context.size() / std::size(kTierParts));
  auto next = context.begin() + 1;
  for (auto& tier : tiers) {
    for (const auto part : kTierParts) tier.*part = *next++;
  }
  return tiers;
}

Tensor uniform(c10::IntArrayRef shape, int64_t fan_in,
               const std::optional<at::Generator>& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return torch::empty(shape).uniform_(-bound, bound, generator);
}

Tensor unit(const Tensor& kernel) {
  return kernel / kernel.norm();
}

/// The absolute value leaves the network monotone wherever an optimiser takes g.
Tensor with_gain(const Tensor& kernel, const Tensor& g) {
  return g.abs().sqrt() * unit(kernel);
}

Tensor rectified(const Tensor& u) {
  const auto inside = u.narrow(2, 1, u.size(2) - 2).narrow(3, 1, u.size(3) - 2);
  return torch::constant_pad_nd(inside.relu(), {1, 1, 1, 1});
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): generators go by value, as in torch's API.
MonotoneCellImpl::MonotoneCellImpl(const MonotoneOptions& options,
                                   std::optional<at::Generator> generator)
    : options_((validate(options), options)), tiers_(options.tiers()) {
  const auto kernel = [&](const std::string& path, int64_t in, int64_t out) {
    return register_parameter_at(*this, path + ".weight",
                                 uniform({out, in, 3, 3}, 9 * in, generator));
  };
  const auto& channels = options.channels;
  u_ = kernel("U", options.image_channels, channels[0]);
  bias_ = register_parameter_at(*this, "U.bias",
                                uniform({channels[0]}, 9 * options.image_channels, generator));
  // The authors' two networks differ in names: a single convolution's have no index.
  const bool single = tiers_.size() == 1;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const auto index = fmt::format(".{}", i);
    const auto scalar = [&](const std::string& name) {
      return register_parameter_at(*this, single ? name : name + index, torch::ones({}));
    };
    auto& tier = tiers_[i];
    tier.a = kernel(single ? "A" : "A0" + index, channels[i], channels[i]);
    tier.b = kernel(single ? "B" : "B0" + index, channels[i], channels[i]);
    tier.g = scalar("g");
    tier.h = scalar("h");
    if (i + 1 == tiers_.size()) break;
    tier.down = kernel("A_n0" + index, channels[i], channels[i + 1]);
    tier.gain = scalar("gn");
  }
}

State MonotoneCellImpl::initial_state(const Inputs& inputs) {
  const auto& image = inputs.at(0);
  const auto size = options_.tier_size(0);
  require(image.dim() == 4 && image.size(1) == options_.image_channels && image.size(2) == size &&
              image.size(3) == size,
          "monotone: an image with border of shape {}, must be [B, {}, {}, {}]", image.sizes(),
          options_.image_channels, size, size);
  State z;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const auto side = options_.tier_size(i);
    z.push_back(torch::zeros({image.size(0), options_.channels[i], side, side}, image.options()));
  }
  return z;
}

std::vector<MonotoneTier> MonotoneCellImpl::made_tiers() const {
  std::vector<MonotoneTier> tiers;
  for (const auto& from : tiers_) {
    const auto b = from.h * unit(from.b);
    auto& tier = tiers.emplace_back();
    tier.a = with_gain(from.a, from.g);
    tier.a_transpose = transposed_kernel(tier.a);
    tier.skew = b - transposed_kernel(b);
    if (from.down.defined()) tier.down = with_gain(from.down, from.gain);
  }
  return tiers;
}

Context MonotoneCellImpl::prepare(const Inputs& inputs) {
  const auto& image = inputs.at(0);
  auto tiers = made_tiers();
  if (options_.splitting == Splitting::PeacemanRachford) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < tiers.size(); ++i) sizes.push_back(options_.tier_size(i));
    add_inverse(tiers, options_.strength, options_.alpha, sizes);
  }
  const auto injection = circular_conv(image, u_) + bias_.view({-1, 1, 1});
  Context context{options_.alpha * injection.to(image.scalar_type())};
  for (const auto& tier : tiers) {
    for (const auto part : kTierParts) context.push_back(tier.*part);
  }
  return context;
}

State MonotoneCellImpl::step(const State& state, const Context& context) {
  const auto& injection = context.at(0);  // αc, for the finest tier only
  const auto tiers = tiers_in(context);
  State next;
  next.reserve(state.size());
  if (options_.splitting == Splitting::ForwardBackward) {
    const auto product = monotone_product(tiers, options_.strength, state);
    for (size_t i = 0; i < state.size(); ++i) {
      auto moved = state[i] - options_.alpha * product[i];
      if (i == 0) moved = moved + injection;
      next.push_back(rectified(moved));
    }
    return next;
  }
  State reflected;
  reflected.reserve(state.size());
  for (const auto& u : state) reflected.push_back(2 * rectified(u) - u);
  auto right = reflected;
  right[0] = right[0] + injection;
  const auto solved = monotone_inverse(tiers, options_.alpha, right);
  for (size_t i = 0; i < state.size(); ++i) next.push_back(2 * solved[i] - reflected[i]);
  return next;
}

State MonotoneCellImpl::equilibrium(const State& state) const {
  if (options_.splitting == Splitting::ForwardBackward) return state;
  State z;
  z.reserve(state.size());
  for (const auto& u : state) z.push_back(rectified(u));
  return z;
}

}  // namespace deq::models
