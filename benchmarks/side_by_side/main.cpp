#include <torch/torch.h>

#include <chrono>
#include <fstream>
#include <iostream>

#include "side_by_side/subject.h"

// libdeq's side of benchmarks/side_by_side.py, which writes the file and reads the answer: a
// model's times, its peak memory and, on request, what it computes.
//
//   deq_side_by_side (mdeq | transformer) FILE (infer | train | check) (anderson | broyden)
//   FORWARD ADJOINT PENALTY REPEATS
//
// FORWARD and ADJOINT are numbers of evaluations, with a tolerance that is never met. "check"
// writes to FILE.out what one step from the file's state leads to, and the gradients.

namespace {

deq::SolverOptions solver(const std::string& name, int64_t evaluations) {
  // The history is as long as the peer's: everything for Broyden.
  const deq::Tolerance never{.rtol = 0};
  if (name == "broyden") return deq::Broyden{.tol = never, .max_evals = evaluations};
  return deq::Anderson{.tol = never, .max_evals = evaluations};
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

void check(Subject& subject, const std::string& path) {
  subject.model().eval();
  auto answer = subject.check();
  for (const auto& item : subject.model().named_parameters()) {
    answer.tensors["grad." + item.key()] = item.value().grad();
  }
  for (auto& item : answer.tensors) item.second = item.second.detach().contiguous();
  deq::lab::write_safetensors(path + ".out", answer);
}

void train(Subject& subject, const deq::EquilibriumPlan& plan, bool penalised) {
  const auto loss = subject.loss(plan, penalised);
  subject.model().zero_grad();
  loss.backward();
}

void measure(Subject& subject, const deq::EquilibriumPlan& plan, bool trains, bool penalised,
             int64_t samples, int repeats) {
  subject.model().train(trains);
  // What a first step loads and keeps, whatever the batch, is not a step's memory.
  subject.keep_first(2);
  train(subject, plan, penalised);
  subject.keep_first(samples);
  const double before = memory_mib("VmRSS");
  std::cout << "{\"ms\": [";
  for (int k = -2; k < repeats; ++k) {  // two to warm up
    const auto begin = std::chrono::steady_clock::now();
    if (trains) {
      train(subject, plan, penalised);
    } else {
      const torch::NoGradGuard no_grad;
      subject.infer(plan);
    }
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (k >= 0) std::cout << (k > 0 ? ", " : "") << time.count();
  }
  std::cout << "], \"mib\": " << memory_mib("VmHWM") - before
            << ", \"threads\": " << torch::get_num_threads() << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    std::cerr << "usage: deq_side_by_side MODEL FILE MODE SOLVER FORWARD ADJOINT PENALTY REPEATS\n";
    return 2;
  }
  const std::string model = argv[1], path = argv[2], mode = argv[3], name = argv[4];
  const deq::EquilibriumOptions plan{
      .forward = solver(name, std::stoi(argv[5])),
      .gradient = deq::Implicit{.solver = solver(name, std::stoi(argv[6]))}};
  auto file = deq::lab::read_safetensors(path);
  const auto samples = file.tensors.at(model == "mdeq" ? "images" : "tokens").size(0);
  const auto subject =
      model == "mdeq" ? make_mdeq(std::move(file)) : make_transformer(std::move(file));
  if (mode == "check") {
    check(*subject, path);
  } else {
    measure(*subject, plan, mode == "train", std::stoi(argv[7]) != 0, samples, std::stoi(argv[8]));
  }
}
