#pragma once

#include <cstdint>
#include <vector>

namespace deq::models {

/// What decides how much of a memory is kept and how much is written.
enum class MemoryGates {
  None,   ///< nothing: the new memory takes the old one's place
  Unit,   ///< two gates for every feature of every slot
  Memory  ///< two gates for every slot
};

/// A language model around a relational memory core (Santoro et al. 2018). The defaults are the
/// published ones for WikiText-103: 2,500 units in one memory, 4 heads, one block of attention and
/// an MLP of 5 layers, words of 512 features with dropout 0.5 and one table for both ends.
struct RelationalMemoryOptions {
  int64_t vocabulary = 267'735;  ///< words, ≥ 1
  /// 0 < … < vocabulary; empty: one cluster. Not published; these are Transformer-XL's.
  std::vector<int64_t> cutoffs{20000, 40000, 200000};
  int64_t div_val = 1;  ///< ≥ 1; see AdaptiveVocabulary
  int64_t d_model =
      512;  ///< features of a word that is read, and of what one is predicted from, ≥ 1
  int64_t d_embed = 512;    ///< width of the first cluster, ≥ 1
  int64_t slots = 1;        ///< rows of the memory, ≥ 1
  int64_t heads = 4;        ///< ≥ 1
  int64_t head_size = 625;  ///< features of a head, ≥ 1; a slot has heads · head_size
  int64_t blocks = 1;       ///< times that the slots attend for one word, ≥ 1
  int64_t mlp_layers = 5;   ///< of the MLP that all blocks share, ≥ 1
  /// Not published for language; this is what the authors' code does unless told otherwise.
  MemoryGates gates = MemoryGates::Unit;
  bool tie_weights = true;  ///< one table to embed and to predict words
  std::vector<bool>
      tie_projections{};           ///< which clusters' between d_embed and d_model; empty: none
  double embedding_dropout = 0.5;  ///< of the words that are read, in [0, 1)
  double output_dropout =
      0;  ///< of the memory that words are predicted from, in [0, 1); not published
  double init_std = 0.02;  ///< of the words' tables at the start, ≥ 0; not published

  int64_t slot_size() const { return heads * head_size; }
  int64_t units() const { return slots * slot_size(); }
};

/// Throws Error naming the field, its value and the constraint.
void validate(const RelationalMemoryOptions& options);

}  // namespace deq::models
