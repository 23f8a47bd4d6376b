// A DEQ-Transformer learns a sentence by heart, character by character, and goes on with it.
//
// Four epochs unroll the layer, as no equilibrium need be there yet; then it is solved for. What is
// written at the end, the model reads one character at a time: earlier positions keep their
// equilibria, which are its memory, and a solve begins at the equilibrium of the position before.
//
// Expected output (numbers to 15%):
//
//   epoch 4: perplexity 1.73
//   epoch 8: perplexity 1.18
//   epoch 12: perplexity 1.08
//   epoch 16: perplexity 1.04
//   o rest. round and round it goes, and comes to rest. round and round it goes, and

#include <deq/lab/data/text/segment_batches.h>
#include <deq/lab/train/optimiser.h>
#include <deq/models.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <string>

int main() {
  torch::manual_seed(0);
  std::string book;
  for (int i = 0; i < 60; ++i) book += "round and round it goes, and comes to rest. ";
  const std::set<char> letters(book.begin(), book.end());
  const std::string alphabet(letters.begin(), letters.end());
  const auto tokens = torch::empty({static_cast<int64_t>(book.size())}, torch::kLong);
  for (size_t i = 0; i < book.size(); ++i) {
    tokens[static_cast<int64_t>(i)] = static_cast<int64_t>(alphabet.find(book[i]));
  }

  deq::models::DeqTransformer model(
      deq::models::TransformerOptions{.vocabulary = static_cast<int64_t>(alphabet.size()),
                                      .cutoffs = {},
                                      .d_model = 64,
                                      .d_embed = 64,
                                      .heads = 4,
                                      .d_head = 16,
                                      .d_inner = 128,
                                      .tie_projections = {},
                                      .dropout = 0,
                                      .attention_dropout = 0,
                                      .init_std = 0.2});
  model->to(torch::kDouble);  // so that every processor gives the same text
  const deq::EquilibriumPlan unrolled({.gradient = deq::Unrolled{.steps = 3}});
  const deq::EquilibriumPlan solved(
      {.forward = deq::Anderson{.max_evals = 12},
       .gradient = deq::Implicit{.solver = deq::Anderson{.max_evals = 12}}});

  // Eight readers, each of its own part of the book: 15 characters per step, the 32 before in
  // memory.
  const deq::lab::SegmentBatches batches(tokens, 15, deq::lab::Shard{.batch_size = 8});
  deq::lab::Optimiser optimiser(deq::lab::Adam{}, deq::lab::trainable(*model));
  for (int epoch = 0; epoch < 16; ++epoch) {
    deq::models::TransformerMemory memory{.capacity = 32};
    double nats = 0;
    for (int64_t i = 0; i < batches.batches(); ++i) {
      const auto batch = batches.batch(epoch, i);
      const auto output =
          model->forward(batch.tensors[0], batch.tensors[1], memory, epoch < 4 ? unrolled : solved);
      memory = output.reading.memory;
      nats += output.nll.sum().item<double>();
      const auto& at = output.reading.equilibrium.linearization();
      optimiser.zero_grad();
      (output.nll.mean() + 0.1 * deq::jacobian_penalty(at)).backward();
      torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
      optimiser.step(1.5e-3 * (1 - epoch / 16.0));
    }
    if ((epoch + 1) % 4 == 0) {
      std::printf("epoch %d: perplexity %.2f\n", epoch + 1,
                  std::exp(nats / static_cast<double>(batches.predictions())));
    }
  }

  model->eval();
  const torch::NoGradGuard no_grad;
  deq::models::TransformerReading reading;
  reading.memory.capacity = 32;
  for (int i = 0; i < 160; ++i) {  // 80 characters to read, then 80 to write
    const auto token = i < 80 ? tokens.slice(0, i, i + 1).unsqueeze(0)
                              : model->log_probabilities(reading.hidden).argmax(-1);
    if (i >= 80) std::putchar(alphabet[static_cast<size_t>(token.item<int64_t>())]);
    reading = model->read(token, reading.memory, solved, reading.hidden);
  }
  std::putchar('\n');
}
