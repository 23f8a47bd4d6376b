#include "deq/models/mdeq/cell.h"

#include <numeric>
#include <utility>

#include "core/autocast.h"
#include "core/require.h"
#include "kernels/common/block_cache.h"
#include "kernels/images/dense_images.h"
#include "models/mdeq/block.h"
#include "models/mdeq/fusion.h"
#include "models/mdeq/layers.h"
#include "models/mdeq/start.h"
#include "replay/recording_gate.h"
#include "replay/side_by_side.h"

namespace deq::models {
namespace {

/// Between two states f computes in one type. The CPU's norms want the residuals as they are.
torch::ScalarType type_of_f(const torch::Tensor& x) {
  return x.is_cuda() ? compute_type(x) : x.scalar_type();
}

/// The scales in one slab, which a solver wants: new ones, the finest as large as these images.
/// `fill` makes the slab.
template <class Fill>
State scales_in_a_slab(const std::vector<int64_t>& channels, const torch::Tensor& finest,
                       const Fill& fill) {
  const auto height = finest.size(2), width = finest.size(3);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < channels.size(); ++i) {
    sizes.push_back(channels[i] * (height >> i) * (width >> i));
  }
  const auto whole = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const torch::Tensor slab = fill({finest.size(0), whole}, finest.options());
  auto scales = slab.split_with_sizes(sizes, 1);
  for (size_t i = 0; i < channels.size(); ++i) {
    scales[i] = scales[i].view({-1, height >> i, width >> i, channels[i]}).permute({0, 3, 1, 2});
  }
  return scales;
}

/// Whether a solve begins here, as a rule. Only looked at where that is cheap, on the CPU if the
/// first number is zero, and where nothing is kept of it: neither a graph nor a recording.
bool is_zero(const torch::Tensor& x) {
  if (!x.is_cpu() || torch::GradMode::is_enabled() || RecordingPermit::held()) return false;
  return x.numel() > 0 && x[0][0][0][0].item<double>() == 0 && !x.any().item<bool>();
}

torch::Tensor zeros(at::IntArrayRef shape, const torch::TensorOptions& options) {
  return torch::zeros(shape, options);
}
torch::Tensor uninitialised(at::IntArrayRef shape, const torch::TensorOptions& options) {
  return options.device().is_cpu() ? kernels::empty_reused(shape, options)
                                   : torch::empty(shape, options);
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): generators go by value, as in torch's API.
MdeqCellImpl::MdeqCellImpl(const MdeqOptions& options, std::optional<at::Generator> generator)
    : channels_((validate(options), options.channels)), branches_(options.scales()) {
  for (size_t i = 0; i < options.scales(); ++i) {
    const auto count = options.blocks.empty() ? 1 : options.blocks[i];
    for (int64_t k = 0; k < count; ++k) {
      branches_[i].push_back(std::make_shared<MdeqBlockImpl>(options, i, generator));
      register_at(*this, fmt::format("branches.{}.blocks.{}", i, k), branches_[i].back());
    }
  }
  for (size_t i = 0; i < options.scales(); ++i) {
    fusions_.push_back(std::make_shared<MdeqFusion>(*this, options, i, generator));
  }
  if (options.predicted_start) start_ = std::make_shared<MdeqStart>(*this, options, generator);
}

State MdeqCellImpl::initial_state(const Inputs& inputs) {
  const auto& injection = inputs.at(0);
  require(injection.dim() == 4 && injection.size(1) == channels_[0],
          "mdeq: an injection of shape {}, must be [B, {}, H, W]", injection.sizes(), channels_[0]);
  const auto height = injection.size(2), width = injection.size(3);
  const auto smallest = int64_t{1} << (channels_.size() - 1);
  require(height % smallest == 0 && width % smallest == 0,
          "mdeq: a finest scale of {}×{} cannot be halved {} times, both must be multiples of {}",
          height, width, channels_.size() - 1, smallest);
  return start_ ? start_->predict(injection) : scales_in_a_slab(channels_, injection, zeros);
}

Context MdeqCellImpl::prepare(const Inputs& inputs) {
  const auto injection = kernels::dense_images(inputs.at(0), type_of_f(inputs.at(0)));
  Context context{injection};
  for (const auto& blocks : branches_) {
    for (const auto& block : blocks) {
      block->prepare(context, injection.size(0), injection.options());
    }
  }
  if (fusions_.size() == 1) return context;
  for (const auto& fusion : fusions_) fusion->prepare(context);
  return context;
}

State MdeqCellImpl::step(const State& z, const Context& context) {
  MdeqPrepared prepared(context);
  torch::Tensor injection = prepared.next();  // only for the very first block
  const auto type = injection.scalar_type();
  State blocks_out(z.size());
  // On a tape all at once: their gradients meet in one slab.
  const auto x = torch::GradMode::is_enabled() ? kernels::dense_images(z, type) : z;
  side_by_side(injection.device(), branches_.size(), [&](size_t i) {
    auto y = kernels::dense_images(x[i], type);
    bool zeros = is_zero(y);
    for (const auto& block : branches_[i]) {
      y = block->step(y, injection, prepared, std::exchange(zeros, false));
      injection.reset();
    }
    blocks_out[i] = y;
  });
  if (fusions_.size() == 1) return blocks_out;
  auto fused = torch::GradMode::is_enabled() ? State(z.size())
                                             : scales_in_a_slab(channels_, z[0], uninitialised);
  side_by_side(z[0].device(), fusions_.size(), [&](size_t i) {
    fused[i] = fusions_[i]->step(blocks_out, prepared, z[0].scalar_type(), fused[i]);
  });
  return fused;
}

}  // namespace deq::models
