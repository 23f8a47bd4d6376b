#include "deq/lab/distributed/gradient_averager.h"

#include <c10/util/Exception.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/require.h"
#include "lab/distributed/links.h"

namespace deq::lab {
namespace {

/// A tensor that is registered twice has one gradient.
std::vector<torch::Tensor> with_gradient(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> kept;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& parameter : parameters) {
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second) {
      kept.push_back(parameter);
    }
  }
  return kept;
}

std::string describe_parameters(const std::vector<torch::Tensor>& parameters) {
  std::string lines;
  for (const auto& parameter : parameters) {
    lines += fmt::format("{} {}\n", parameter.scalar_type(), parameter.sizes());
  }
  return lines;
}

/// Gradients come about from the last layer to the first, so that is the order of the buckets; the
/// first is small, for the exchange to begin early.
std::vector<std::vector<size_t>> buckets_of(const std::vector<torch::Tensor>& parameters,
                                            int64_t bucket_bytes) {
  const auto bytes = static_cast<size_t>(bucket_bytes);
  std::vector<int64_t> backwards(parameters.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  return std::get<0>(c10d::compute_bucket_assignment_by_size(
      {parameters.rbegin(), parameters.rend()},
      {std::min<size_t>(c10d::kDefaultFirstBucketBytes, bytes), bytes}, {}, backwards));
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

/// Since libtorch 2.9 a reducer also takes a list of bucket sizes.
template <class Reducer, class... Arguments>
std::unique_ptr<Reducer> make_reducer(Arguments&&... arguments) {
  using Sizes = std::vector<int64_t>;
  if constexpr (std::is_constructible_v<Reducer, Arguments..., Sizes>) {
    return std::make_unique<Reducer>(std::forward<Arguments>(arguments)..., Sizes());
  } else {
    return std::make_unique<Reducer>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace

struct GradientAverager::Impl {
  Impl(const std::vector<torch::Tensor>& parameters,
       const c10::intrusive_ptr<c10d::ProcessGroup>& group, int64_t bucket_bytes)
      : reducer(make_reducer<c10d::Reducer>(
            parameters, buckets_of(parameters, bucket_bytes), group,
            std::vector<bool>(parameters.size(), false), bucket_bytes,
            /*find_unused_parameters=*/true, /*gradient_as_bucket_view=*/false,
            /*param_names=*/std::unordered_map<size_t, std::string>(),
            static_cast<int64_t>(c10d::kDefaultFirstBucketBytes),
            /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false)) {}

  std::unique_ptr<c10d::Reducer> reducer;
};

void broadcast_from_main(World& world, const std::vector<torch::Tensor>& tensors) {
  for (const auto& tensor : tensors) world.broadcast(tensor);
}

GradientAverager::GradientAverager(std::shared_ptr<World> world,
                                   const std::vector<torch::Tensor>& parameters,
                                   const AveragerOptions& options)
    : world_(std::move(world)) {
  require(options.bucket_bytes > 0, "bucket_bytes is {}; allowed: more than 0",
          options.bucket_bytes);
  const auto trained = with_gradient(parameters);
  require(!trained.empty(), "an averager of gradients needs a parameter with a gradient");
  if (!world_->links_) return;
  world_->require_same("the list of parameters", describe_parameters(trained));
  impl_ = std::make_unique<Impl>(trained, world_->links_->group, options.bucket_bytes);
}

GradientAverager::~GradientAverager() = default;

void GradientAverager::expect_backward(const torch::Tensor& loss) {
  if (!impl_) return;
  // The reducer warns where every parameter is used, which is the rule here.
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  impl_->reducer->prepare_for_backward({loss});
}

}  // namespace deq::lab
