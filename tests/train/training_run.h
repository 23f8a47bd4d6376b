#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deq/train/run.h"
#include "deq/train/synthetic.h"
#include "deq/train/trainer.h"

namespace deq::testing {

/// A synthetic experiment of 4 epochs of 8 steps, with whatever a test wants to go wrong in it.
inline SyntheticConfig short_config() {
  SyntheticConfig config;
  config.data = {.train_samples = 128, .valid_samples = 32};
  config.train.epochs = 4;
  config.train.batch_size = 16;
  config.train.eval_every = 2;
  config.train.log_every = 4;
  config.train.lr = 1e-2;
  return config;
}

/// Calls `fault` on every pass before it is used.
class FaultyTask : public SyntheticTask {
 public:
  using Fault = std::function<void(int64_t pass, TaskPass& made)>;
  FaultyTask(const SyntheticConfig& config, Fault fault)
      : SyntheticTask(config), fault_(std::move(fault)) {}

  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override {
    auto pass = SyntheticTask::forward(batch, how);
    if (fault_) fault_(passes_, pass);
    ++passes_;
    return pass;
  }
  int64_t passes() const { return passes_; }

 private:
  Fault fault_;
  int64_t passes_ = 0;
};

/// One process that trains in a folder.
struct TrainingRun {
  TrainingRun(const SyntheticConfig& config, std::filesystem::path folder,
              FaultyTask::Fault fault = {})
      : task(config, std::move(fault)),
        run(std::move(folder)),
        trainer(task, config, to_toml(config), run, World::alone(),
                {.record = [this](const Metrics& line) { lines.push_back(line); },
                 .progress = {},
                 .warn = [this](const std::string& message) { warnings.push_back(message); },
                 .interrupted = [this] { return interrupted ? interrupted() : 0; }}) {}

  std::vector<Metrics> of(const std::string& split) const {
    std::vector<Metrics> found;
    for (const auto& line : lines) {
      if (text(line, "split") == split) found.push_back(line);
    }
    return found;
  }

  std::map<std::string, torch::Tensor> weights() {
    std::map<std::string, torch::Tensor> copies;
    for (const auto& item : task.model().named_parameters()) {
      copies[item.key()] = item.value().detach().clone();
    }
    return copies;
  }

  FaultyTask task;
  std::filesystem::path run;
  std::vector<Metrics> lines;
  std::vector<std::string> warnings;
  std::function<int()> interrupted;
  Trainer trainer;
};

inline bool same_bits(const std::map<std::string, torch::Tensor>& a,
                      const std::map<std::string, torch::Tensor>& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&b](const auto& item) {
           return b.contains(item.first) && b.at(item.first).equal(item.second);
         });
}

}  // namespace deq::testing
