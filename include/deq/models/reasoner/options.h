#pragma once

#include <cstdint>

namespace deq::models {

/// Where the states of a new puzzle begin.
enum class ReasonerStart {
  Fixed,   ///< at two vectors, drawn once and the same for every token (TRM)
  Random,  ///< at numbers drawn anew for each puzzle, so that answers do not hang on the start
           ///< (EqR)
};

/// A small network that is applied again and again until its answer settles: the Tiny Recursive
/// Model (Jolicoeur-Martineau 2025). The defaults are its settings for Sudoku; with damping 0.95,
/// noise 0.01 and random starts it is the Equilibrium Reasoner.
struct ReasonerOptions {
  int64_t vocabulary = 11;       ///< what may stand in a cell of a puzzle, ≥ 2
  int64_t tokens = 81;           ///< cells of a puzzle, ≥ 1
  int64_t width = 512;           ///< features of a token, ≥ 1; even where there is attention
  int64_t layers = 2;            ///< of the block, ≥ 1
  int64_t expansion = 4;         ///< how much wider a layer is inside, ≥ 1
  int64_t inner_multiple = 256;  ///< widths inside are rounded up to a multiple of this, ≥ 1
  bool attention = false;        ///< tokens see each other by attention, not by a layer over them
  int64_t heads = 8;             ///< of the attention, ≥ 1; divides width into even parts
  int64_t inner_steps = 6;       ///< updates of the thought for one of the answer, ≥ 1
  double damping = 1;            ///< λ of an update s ← (1 − λ) s + λ block(…), in (0, 1]
  double noise = 0;              ///< σ of what training adds to every update, ≥ 0
  ReasonerStart start = ReasonerStart::Fixed;
};

/// Throws Error naming the field, its value and the constraint.
void validate(const ReasonerOptions& options);

}  // namespace deq::models
