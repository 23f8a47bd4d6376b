#include "lab/tasks/puzzle_loss.h"

namespace deq::lab {
namespace {

torch::Tensor log_stablemax(const torch::Tensor& x) {
  // Each branch is finite everywhere, with its gradient: where() multiplies the other one's by 0.
  const auto s = torch::where(x >= 0, x + 1, 1 / (1 - x.clamp_max(0)));
  return s.log() - s.sum(-1, /*keepdim=*/true).log();
}

}  // namespace

torch::Tensor cell_losses(const torch::Tensor& logits, const torch::Tensor& answers,
                          CellLoss kind) {
  const auto p = kind == CellLoss::Stablemax ? log_stablemax(logits) : logits.log_softmax(-1);
  return -p.gather(-1, answers.unsqueeze(-1)).squeeze(-1);
}

}  // namespace deq::lab
