#include "lab/train/persistence.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/require.h"
#include "deq/lab/distributed/gradient_averager.h"
#include "deq/lab/runs/run.h"
#include "lab/runs/model_state.h"
#include "lab/train/model_parts.h"

namespace deq::lab {
namespace {

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

using Tensors = std::map<std::string, torch::Tensor>;

/// The main rank's tensors, on every rank, or of each what `kept` makes of it there.
Tensors shared_tensors(World& world, const Tensors& tensors, torch::Device device,
                       const std::function<Tensors(const Tensors&)>& kept = {}) {
  auto list = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) {
    list[name] = {{"type", static_cast<int>(tensor.scalar_type())},
                  {"shape", tensor.sizes().vec()}};
  }
  list = nlohmann::json::parse(shared_text(world, list.dump(), device));
  Tensors shared;
  for (const auto& [name, form] : list.items()) {
    const auto type = static_cast<torch::ScalarType>(form["type"].get<int>());
    const auto tensor = world.is_main() ? tensors.at(name).to(device)
                                        : torch::empty(form["shape"].get<std::vector<int64_t>>(),
                                                       torch::TensorOptions(device).dtype(type));
    world.broadcast(tensor);
    shared.merge(kept ? kept({{name, tensor}}) : Tensors{{name, tensor}});
  }
  return shared;
}

/// Removes the tensors whose names begin with `prefix`, and returns them without it.
Tensors taken_out(Tensors& tensors, std::string_view prefix) {
  Tensors taken;
  for (auto at = tensors.lower_bound(std::string(prefix));
       at != tensors.end() && at->first.starts_with(prefix); at = tensors.erase(at)) {
    taken[at->first.substr(prefix.size())] = at->second;
  }
  return taken;
}

}  // namespace

Persistence::Persistence(Task& task, Optimiser& optimiser, const WeightAverage& average,
                         std::shared_ptr<World> world, std::shared_ptr<World> copies,
                         Checkpoints files, std::string config)
    : task_(task),
      optimiser_(optimiser),
      average_(average),
      world_(std::move(world)),
      copies_(std::move(copies)),
      files_(std::move(files)),
      config_(std::move(config)) {}

Tensors Persistence::tensors() const {
  auto all = model_tensors(task_.model());
  for (const auto& [name, mean] : average_.means()) {
    all[std::string(kTrainedPrefix) + name] = std::exchange(all.at(name), mean);
  }
  for (const auto& [name, tensor] : optimiser_.state()) {
    all[std::string(kOptimiserPrefix) + name] = tensor;
  }
  return all;
}

Tensors Persistence::whole_tensors() const {
  const auto* parts = task_.in_parts();
  return parts == nullptr ? tensors() : parts->join(tensors());
}

void Persistence::save(const TrainingState& state) {
  const auto carried = task_.carried(*copies_);
  world_->barrier();
  if (!copies_->is_main()) return;
  auto all = whole_tensors();
  if (!world_->is_main()) return;
  for (const auto& [name, tensor] : carried) all[std::string(kCarriedPrefix) + name] = tensor;
  auto metadata = checkpoint_metadata(config_, task_.classes(), task_.sample_form());
  metadata[kTrainingStateKey] = state.to_json();
  files_.save(state.step, {.tensors = std::move(all), .metadata = std::move(metadata)});
}

void Persistence::mark_best(int64_t step) {
  if (world_->is_main()) files_.mark_best(step);
}

TrainingState Persistence::load_newest(const TrainingState& otherwise,
                                       const std::function<void(const std::string&)>& warn) {
  auto state = otherwise;
  Tensors carried, loaded;
  if (world_->is_main()) {
    std::vector<std::string> damages;
    const auto found =
        files_.newest([&damages](const std::string& why) { damages.push_back(why); });
    // To begin again would throw away the metrics of a run that may yet be saved by hand.
    require(found || damages.empty(), "no checkpoint of this run is whole: {}",
            damages.empty() ? "" : damages.front());
    for (const auto& damage : damages) warn(damage);
    if (found) {
      const auto text = found->file.metadata.find(kTrainingStateKey);
      require(text != found->file.metadata.end(),
              "{} holds a model, but no training that could go on", found->path.string());
      require_classes(classes_in(found->file.metadata), task_.classes(), found->path.string());
      require_sample_form(sample_form_in(found->file.metadata), task_.sample_form(),
                          found->path.string());
      auto stored = found->file.tensors;
      carried = taken_out(stored, kCarriedPrefix);
      // Older runs kept no means of buffers: what they hold is the trained one.
      for (const auto& [name, mean] : average_.means()) {
        const auto found_mean = stored.find(name);
        if (found_mean != stored.end()) {
          stored.try_emplace(std::string(kTrainedPrefix) + name, found_mean->second);
        }
      }
      if (task_.in_parts() != nullptr) {
        loaded = std::move(stored);
      } else {
        restore_tensors(tensors(), stored, found->path.string());
      }
      state = TrainingState::from_json(text->second);
      // The run may have been killed right after it was written.
      files_.prune(state.step);
      if (state.best_step == state.step) files_.mark_best(state.step);
    }
  }
  return share(state, carried, loaded);
}

TrainingState Persistence::share(const TrainingState& state) {
  return share(state, {}, {});
}

TrainingState Persistence::share(const TrainingState& state, const Tensors& carried,
                                 const Tensors& loaded) {
  auto everyones = state;
  auto everyones_carried = carried;
  if (world_->size() > 1) {
    std::vector<torch::Tensor> all;
    for (const auto& [name, tensor] : tensors()) all.push_back(tensor);
    const auto device = all.front().device();
    const auto* parts = task_.in_parts();
    const auto own = parts == nullptr
                         ? Tensors()
                         : shared_tensors(*world_, loaded, device, [parts](const Tensors& whole) {
                             return parts->cut(whole);
                           });
    if (own.empty()) {
      broadcast_from_main(*copies_, all);
    } else {
      restore_tensors(tensors(), own, "the checkpoint");
    }
    everyones = TrainingState::from_json(shared_text(*world_, state.to_json(), device));
    everyones_carried = shared_tensors(*world_, carried, device);
  }
  task_.carry_on(everyones.step, everyones_carried);
  return everyones;
}

}  // namespace deq::lab
