#pragma once

#include "deq/lab/settings/reasoning.h"
#include "lab/config/description.h"
#include "lab/settings/describe_recipe.h"
#include "lab/settings/experiment_names.h"

namespace deq::lab::config {

inline constexpr Choice<models::ReasonerStart> kReasonerStarts[] = {
    {"fixed", models::ReasonerStart::Fixed}, {"random", models::ReasonerStart::Random}};
inline constexpr Choice<CellLoss> kCellLosses[] = {{"stablemax", CellLoss::Stablemax},
                                                   {"softmax", CellLoss::Softmax}};

template <class Visitor>
void describe(Visitor& v, PuzzleData& data) {
  v.text("path", data.path,
         "The folder that holds train.csv and, to validate on, test.csv: `deq data make sudoku` "
         "or `maze` makes one. The first question says which kind they are.",
         Presence::Required);
  v.optional_number("train_puzzles", data.train_puzzles, at_least(1),
                    "Train only on this many, the first.");
  v.optional_number("valid_puzzles", data.valid_puzzles, at_least(1),
                    "Validate only on this many, the first.");
  v.flag("augment", data.augment,
         "Whether training shows puzzles in ever new guises: digits renamed, rows, columns and "
         "their bands swapped; mazes turned and mirrored.");
}

template <class Visitor>
void describe(Visitor& v, models::ReasonerOptions& model) {
  v.number("width", model.width, at_least(1), "Features of a cell.");
  v.number("layers", model.layers, at_least(1), "Layers of the block that is applied.");
  v.number("expansion", model.expansion, at_least(1), "How much wider a layer is inside.");
  v.number("inner_multiple", model.inner_multiple, at_least(1),
           "Widths inside are rounded up to a multiple of this.");
  v.flag("attention", model.attention,
         "Whether cells see each other by attention, not by a layer over them.");
  v.number("heads", model.heads, at_least(1), "Heads of the attention.");
  v.number("inner_steps", model.inner_steps, at_least(1),
           "Updates of the thought for one of the answer: together one evaluation of f.");
  v.number("damping", model.damping, above_up_to(0, 1),
           "What an update takes of the block's result; it keeps the rest of the state.");
  v.number("noise", model.noise, at_least(0),
           "The standard deviation of what training adds to every update.");
  v.choice("start", model.start, kReasonerStarts,
           "Whether new puzzles begin at fixed vectors or at random numbers.");
}

template <class Visitor>
void describe(Visitor& v, ReasoningPlan& plan) {
  v.number(
      "segments", plan.segments, at_least(1),
      "Training steps that a puzzle stays for at most; it leaves earlier where the model takes "
      "its answer for right.");
  v.number("exploration", plan.exploration, between(0, 1),
           "How likely a puzzle is to stay for a random number of steps at least.");
  v.choice("loss", plan.loss, kCellLosses,
           "What takes the exponential's part in a cell's cross-entropy.");
  v.number("settled_weight", plan.settled_weight, at_least(0),
           "The weight of telling whether the answer is right.");
  v.number("breadth", plan.breadth, at_least(1),
           "Random starts of a puzzle outside of training, of which the one with the least "
           "residual counts.");
}

template <class Visitor>
void describe(Visitor& v, ReasoningConfig& config) {
  describe_top(v, config, kReasoning);
  v.table("data", config.data, "The puzzles.");
  v.table("model", config.model, "The network.");
  v.table("reasoning", config.reasoning, "How puzzles are learnt and solved.");
  describe_tables(v, config);
}

}  // namespace deq::lab::config
