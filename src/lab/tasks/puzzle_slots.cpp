#include "lab/tasks/puzzle_slots.h"

#include <cmath>

#include "core/require.h"
#include "lab/tasks/carried_rows.h"

namespace deq::lab {
namespace {

/// The rows of `taken` where it is their turn, of `kept` elsewhere.
torch::Tensor chosen(const torch::Tensor& turn, const torch::Tensor& taken,
                     const torch::Tensor& kept) {
  std::vector<int64_t> shape(static_cast<size_t>(kept.dim()), 1);
  shape[0] = -1;
  return torch::where(turn.view(shape), taken, kept);
}

using Rows = PuzzleSlots::Rows;

/// All tensors in one order, of which a state has two.
std::vector<torch::Tensor> as_list(const Rows& rows) {
  if (rows.state.empty()) return {};
  return {rows.questions, rows.answers, rows.state.at(0), rows.state.at(1),
          rows.segments,  rows.least,   rows.over};
}

Rows from_list(const std::vector<torch::Tensor>& list) {
  if (list.empty()) return {};
  require(list.size() == 7, "the checkpoint's puzzles have {} tensors, must have 7", list.size());
  return {.questions = list[0],
          .answers = list[1],
          .state = {list[2], list[3]},
          .segments = list[4],
          .least = list[5],
          .over = list[6]};
}

}  // namespace

PuzzleSlots::PuzzleSlots(const Shard& shard, int64_t segments, double exploration)
    : shard_(shard),
      segments_(segments),
      exploration_(exploration),
      parts_(static_cast<size_t>(shard.parts)) {}

Rows PuzzleSlots::fresh(const Batch& batch, const State& start) const {
  const auto& questions = batch.tensors.at(0);
  const auto whole = questions.options();
  const auto rows = questions.size(0);
  auto least = torch::ones({rows}, whole);
  if (segments_ > 1) {
    const auto explores = torch::rand({rows}, whole.dtype(torch::kFloat32)) < exploration_;
    least = torch::where(explores, torch::randint(2, segments_ + 1, {rows}, whole), least);
  }
  return {.questions = questions,
          .answers = batch.tensors.at(1),
          .state = start,
          .segments = torch::zeros({rows}, whole),
          .least = least,
          .over = torch::zeros({rows}, whole)};
}

const Rows& PuzzleSlots::next(const Batch& batch,
                              const std::function<State(const torch::Tensor&)>& start_of) {
  const torch::NoGradGuard no_grad;
  auto& part = turn();
  auto& rows = part.rows;
  const auto anew = fresh(batch, start_of(batch.tensors.at(0)));
  const bool spoilt = part.loss.defined() && !std::isfinite(part.loss.item<double>());
  if (rows.state.empty() || spoilt) {
    rows = anew;
    return rows;
  }
  const auto over = rows.over.to(torch::kBool);
  auto list = as_list(rows);
  const auto newcomers = as_list(anew);
  for (size_t i = 0; i < list.size(); ++i) list[i] = chosen(over, newcomers[i], list[i]);
  rows = from_list(list);
  return rows;
}

void PuzzleSlots::remember(const State& state, const torch::Tensor& settled,
                           const torch::Tensor& loss) {
  const torch::NoGradGuard no_grad;
  auto& part = turn();
  auto& rows = part.rows;
  rows.state.clear();
  for (const auto& tensor : state) rows.state.push_back(tensor.detach());
  rows.segments = rows.segments + 1;
  const auto leaves = (settled.detach() > 0).logical_and(rows.segments >= rows.least);
  rows.over = leaves.logical_or(rows.segments >= segments_).to(torch::kInt64);
  part.loss = loss.detach();
  ++batch_;
}

std::map<std::string, torch::Tensor> PuzzleSlots::gather(World& world) const {
  RowsOfParts lists;
  for (const auto& part : parts_) lists.push_back(as_list(part.rows));
  return gather_rows(lists, shard_, world);
}

void PuzzleSlots::restore(int64_t step, const std::map<std::string, torch::Tensor>& gathered,
                          torch::Device device) {
  batch_ = step * shard_.parts;
  const auto lists = scatter_rows(gathered, shard_, device);
  for (size_t part = 0; part < parts_.size(); ++part) {
    parts_[part] = {.rows = from_list(lists[part]), .loss = {}};
  }
}

}  // namespace deq::lab
