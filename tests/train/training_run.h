#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deq/lab/runs/run.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/tasks/synthetic.h"
#include "deq/lab/train/trainer.h"

namespace deq::test {

/// A synthetic experiment of 4 epochs of 8 steps, with whatever a test wants to go wrong in it.
inline lab::SyntheticConfig short_config() {
  lab::SyntheticConfig config;
  config.data = {.train_samples = 128, .valid_samples = 32};
  config.train.epochs = 4;
  config.train.batch_size = 16;
  config.train.eval_every = 2;
  config.train.log_every = 4;
  config.train.lr = 1e-2;
  return config;
}

/// Calls `fault` on every pass before it is used.
class FaultyTask : public lab::SyntheticTask {
 public:
  using Fault = std::function<void(int64_t pass, lab::TaskPass& made)>;
  FaultyTask(const lab::SyntheticConfig& config, Fault fault)
      : lab::SyntheticTask(config), fault_(std::move(fault)) {}

  lab::TaskPass forward(const lab::Batch& batch, const EquilibriumPlan& how) override {
    auto pass = lab::SyntheticTask::forward(batch, how);
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
  TrainingRun(const lab::SyntheticConfig& config, std::filesystem::path folder,
              FaultyTask::Fault fault = {})
      : task(config, std::move(fault)),
        run(std::move(folder)),
        trainer(task, config, lab::to_toml(config), run, lab::World::alone(),
                {.on_metrics = [this](const lab::Metrics& line) { lines.push_back(line); },
                 .progress = {},
                 .warn = [this](const std::string& message) { warnings.push_back(message); },
                 .interrupted = [this] { return interrupted ? interrupted() : 0; }}) {}

  std::vector<lab::Metrics> of(const std::string& split) const {
    std::vector<lab::Metrics> found;
    for (const auto& line : lines) {
      if (lab::text(line, "split") == split) found.push_back(line);
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
  std::vector<lab::Metrics> lines;
  std::vector<std::string> warnings;
  std::function<int()> interrupted;
  lab::Trainer trainer;
};

inline bool same_bits(const std::map<std::string, torch::Tensor>& a,
                      const std::map<std::string, torch::Tensor>& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&b](const auto& item) {
           return b.contains(item.first) && b.at(item.first).equal(item.second);
         });
}

}  // namespace deq::test
