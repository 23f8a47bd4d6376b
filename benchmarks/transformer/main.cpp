#include <torch/torch.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string>

#include "deq/io/safetensors.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/transformer.h"

// One DEQ-Transformer with a file's weights and words: its times, its peak memory and, on request,
// what it computes. benchmarks/compare_transformer.py writes the file and reads the answer.
//
//   deq_transformer_benchmark FILE (infer | train | check) (anderson | broyden) FORWARD ADJOINT
//   PENALTY REPEATS
//
// FORWARD and ADJOINT are numbers of evaluations, with a tolerance that is never met. "check"
// writes to FILE.out what one step and the softmax make of the file's state, and the gradients.

namespace {

struct Work {
  deq::TensorFile file;
  deq::DeqTransformer model{nullptr};
  deq::EquilibriumPlan plan;
  bool penalty = false;

  const torch::Tensor& tensor(const char* name) const { return file.tensors.at(name); }

  deq::TransformerMemory memory() const {
    const auto& z = tensor("memory.z");
    return {.capacity = z.size(1), .z = z, .u = tensor("memory.u")};
  }

  deq::TransformerOutput forward() {
    return model->forward(tensor("tokens"), tensor("targets"), memory(), plan);
  }

  void train() {
    const auto output = forward();
    auto loss = output.nll.mean();
    if (penalty) loss = loss + deq::jacobian_penalty(output.reading.equilibrium.linearization());
    model->zero_grad();
    loss.backward();
  }
};

deq::SolverOptions solver(const std::string& name, int64_t evaluations) {
  // The history is as long as the peer's: everything for Broyden.
  const deq::Tolerance never{.rtol = 0};
  if (name == "broyden") return deq::Broyden{.tol = never, .max_evals = evaluations};
  return deq::Anderson{.tol = never, .max_evals = evaluations};
}

/// The sizes are the peer's, of which the weights tell all but the number of heads.
deq::DeqTransformer load(const deq::TensorFile& file) {
  deq::TransformerOptions options;
  options.d_model = options.d_embed = file.tensors.at("memory.z").size(2);
  options.heads = file.tensors.at("param.func.dec_attn.r_w_bias").size(0);
  options.d_head = file.tensors.at("param.func.dec_attn.r_w_bias").size(1);
  options.d_inner = file.tensors.at("param.func.pos_ff.ff1_net.bias").size(0);
  options.dropout = options.attention_dropout = 0;
  deq::DeqTransformer model(options);
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

/// One step from the file's state, what the words cost after it, and the gradients of the mean.
void check(Work& work, const std::string& path) {
  work.model->eval();
  auto cell = work.model->cell();
  const auto injection = work.model->inject(work.tensor("tokens"));
  const auto context = cell->prepare(work.model->cell_inputs(injection, work.memory()));
  const auto f = cell->step({work.tensor("z")}, context)[0];
  const auto nll = work.model->cost(f, work.tensor("targets"));
  nll.mean().backward();
  deq::TensorFile answer;
  answer.tensors["f"] = f;
  answer.tensors["nll"] = nll;
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
    for (const auto* name : {"tokens", "targets", "memory.z", "memory.u"}) {
      small.file.tensors[name] = work.tensor(name).narrow(0, 0, 1);
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
    std::cerr << "usage: deq_transformer_benchmark FILE MODE SOLVER FORWARD ADJOINT PENALTY "
                 "REPEATS\n";
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
