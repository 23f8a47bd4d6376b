#include <torch/nn/functional/loss.h>
#include <torch/torch.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string>

#include "deq/io/safetensors.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq.h"

// One multiscale DEQ with a file's weights and images: its times, its peak memory and, on request,
// what it computes. benchmarks/compare_mdeq.py writes the file and reads the answer.
//
//   deq_mdeq_benchmark FILE (infer | train | check) (anderson | broyden) FORWARD ADJOINT PENALTY
//   REPEATS
//
// FORWARD and ADJOINT are numbers of evaluations, with a tolerance that is never met. "check"
// writes to FILE.out what one step and the head make of the file's state, and the gradients.

namespace {

struct Work {
  deq::TensorFile file;
  deq::MdeqClassifier model{nullptr};
  deq::EquilibriumPlan plan;
  bool penalty = false;

  const torch::Tensor& tensor(const char* name) const { return file.tensors.at(name); }

  deq::MdeqOutput forward() { return model->forward(tensor("images"), plan); }

  deq::MdeqOutput train() {
    auto output = forward();
    auto loss = torch::nn::functional::cross_entropy(output.logits, tensor("labels"));
    if (penalty) loss = loss + deq::jacobian_penalty(output.equilibrium.linearization());
    model->zero_grad();
    loss.backward();
    return output;
  }
};

deq::SolverOptions solver(const std::string& name, int64_t evaluations) {
  // The history is as long as the peer's: everything for Broyden.
  const deq::Tolerance never{.rtol = 0};
  if (name == "broyden") return deq::Broyden{.tol = never, .max_evals = evaluations};
  return deq::Anderson{.tol = never, .max_evals = evaluations};
}

deq::MdeqClassifier load(const deq::TensorFile& file) {
  auto options = deq::mdeq_preset("cifar-tiny");
  options.dropout = 0;
  deq::MdeqClassifier model(options);
  const torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    item.value().copy_(file.tensors.at("param." + item.key()));
  }
  for (auto& item : model->named_buffers()) {
    item.value().copy_(file.tensors.at("param." + item.key()));
  }
  return model;
}

/// VmRSS or VmHWM, the resident memory now or at its peak. (getrusage's peak is also that of the
/// process this one was started from.)
double memory_mib(const std::string& what) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (double kib = 0; word == what + ":" && file >> kib) return kib / 1024;
  }
  return 0;
}

/// One step from the file's state, what the head makes of it, and the gradients of the loss.
void check(Work& work, const std::string& path) {
  work.model->eval();
  auto cell = work.model->cell();
  const auto context = cell->prepare({work.model->inject(work.tensor("images"))});
  const auto f = cell->step({work.tensor("z.0"), work.tensor("z.1")}, context);
  const auto logits = work.model->classify(f);
  torch::nn::functional::cross_entropy(logits, work.tensor("labels")).backward();
  deq::TensorFile answer;
  answer.tensors["logits"] = logits;
  for (size_t i = 0; i < f.size(); ++i) answer.tensors[c10::str("f.", i)] = f[i];
  for (const auto& item : work.model->named_parameters()) {
    answer.tensors["grad." + item.key()] = item.value().grad();
  }
  for (auto& item : answer.tensors) item.second = item.second.detach().contiguous();
  deq::write_safetensors(path + ".out", answer);
}

void measure(Work& work, bool train, int repeats) {
  work.model->train(train);
  {
    // What a first step loads and keeps, whatever the batch, is not a step's memory.
    Work small = work;
    for (const auto* name : {"images", "labels"}) {
      small.file.tensors[name] = work.tensor(name).narrow(0, 0, 2);
    }
    small.train();
  }
  const double before = memory_mib("VmRSS");
  std::cout << "{\"ms\": [";
  for (int k = -2; k < repeats; ++k) {  // two to warm up
    const auto begin = std::chrono::steady_clock::now();
    if (train) {
      work.train();
    } else {
      const torch::NoGradGuard no_grad;
      work.forward();
    }
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (k >= 0) std::cout << (k > 0 ? ", " : "") << time.count();
  }
  std::cout << "], \"mib\": " << memory_mib("VmHWM") - before
            << ", \"threads\": " << torch::get_num_threads() << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::cerr << "usage: deq_mdeq_benchmark FILE MODE SOLVER FORWARD ADJOINT PENALTY REPEATS\n";
    return 2;
  }
  const std::string path = argv[1], mode = argv[2], name = argv[3];
  const deq::EquilibriumOptions plan{
      .forward = solver(name, std::stoi(argv[4])),
      .gradient = deq::Implicit{.solver = solver(name, std::stoi(argv[5]))}};
  Work work{.file = deq::read_safetensors(path), .plan = plan, .penalty = std::stoi(argv[6]) != 0};
  work.model = load(work.file);
  if (mode == "check") {
    check(work, path);
  } else {
    measure(work, mode == "train", std::stoi(argv[7]));
  }
}
