#include "train/persistence.h"

#include <cstring>
#include <utility>
#include <vector>

#include "deq/core/error.h"
#include "deq/distributed/gradient_averager.h"
#include "deq/train/run.h"
#include "train/model_state.h"

namespace deq {
namespace {

constexpr const char* kStateKey = "training_state";

/// The main rank's text, on every rank.
std::string shared_text(World& world, const std::string& text, torch::Device device) {
  auto length = torch::tensor(static_cast<int64_t>(text.size()), torch::TensorOptions(device));
  world.broadcast(length);
  auto bytes = torch::zeros({length.item<int64_t>()}, torch::kUInt8);
  if (world.is_main()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  bytes = bytes.to(device);
  world.broadcast(bytes);
  bytes = bytes.cpu();
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

}  // namespace

Persistence::Persistence(Task& task, Optimiser& optimiser, std::shared_ptr<World> world,
                         Checkpoints files, std::string config)
    : task_(task),
      optimiser_(optimiser),
      world_(std::move(world)),
      files_(std::move(files)),
      config_(std::move(config)) {}

std::map<std::string, torch::Tensor> Persistence::tensors() const {
  auto all = model_tensors(task_.model());
  for (const auto& [name, tensor] : optimiser_.state()) {
    all[std::string(kOptimiserPrefix) + name] = tensor;
  }
  return all;
}

void Persistence::save(const TrainingState& state) {
  world_->barrier();
  if (!world_->is_main()) return;
  auto metadata = checkpoint_metadata(config_, task_.classes());
  metadata[kStateKey] = state.to_json();
  files_.save(state.step, {.tensors = tensors(), .metadata = std::move(metadata)});
}

void Persistence::mark_best(int64_t step) {
  if (world_->is_main()) files_.mark_best(step);
}

TrainingState Persistence::load_newest(const TrainingState& otherwise,
                                       const std::function<void(const std::string&)>& warn) {
  auto state = otherwise;
  if (world_->is_main()) {
    std::vector<std::string> damages;
    const auto found =
        files_.newest([&damages](const std::string& why) { damages.push_back(why); });
    // To begin again would throw away the metrics of a run that may yet be saved by hand.
    require(found || damages.empty(),
            "no checkpoint of this run is whole: ", damages.empty() ? "" : damages.front());
    for (const auto& damage : damages) warn(damage);
    if (found) {
      const auto text = found->file.metadata.find(kStateKey);
      require(text != found->file.metadata.end(), found->path.string(),
              " holds a model, but no training that could go on");
      restore_tensors(tensors(), found->file.tensors, found->path.string());
      state = TrainingState::from_json(text->second);
      // The run may have been killed right after it was written.
      files_.prune(state.step);
      if (state.best_step == state.step) files_.mark_best(state.step);
    }
  }
  return share(state);
}

TrainingState Persistence::share(const TrainingState& state) {
  if (world_->size() == 1) return state;
  std::vector<torch::Tensor> all;
  for (const auto& [name, tensor] : tensors()) all.push_back(tensor);
  broadcast_from_main(*world_, all);
  return TrainingState::from_json(shared_text(*world_, state.to_json(), all.front().device()));
}

}  // namespace deq
