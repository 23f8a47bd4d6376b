#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

#include "core/rng.h"

namespace deq::lab {

/// All that a run draws from its seed. The numbers make a run what it is and never change. Tasks
/// may share some: no run has two tasks.
enum class RandomStream : uint64_t {
  SyntheticTraining = 0,
  SyntheticValidation = 1,
  SyntheticWeights = 2,
  SyntheticSpectrum = 3,
  ImageWeights = 100,
  LanguageWeights = 200,
  TrainingSubset = 200,
  ValidationSubset = 201,
  SegmentationWeights = 300,
  Puzzles = 400,
  ReasonerWeights = 401,
  ReasonerStarts = 402,
  StabilitySpectrum = 900,
  StabilityProbes = 901,
  StabilitySamples = 902,
  StabilityNoise = 903,
  StabilityStarts = 904,
  // One key for every training step:
  SampleOrder = 1000,
  PenaltyCoin = 1001,
  PenaltyProbes = 1002,
  SolverBudget = 1003,
  ModelNoise = 1004,
  UnrolledSteps = 1005,
  SwitchCoin = 1006,
  StepEvals = 1007,
};

/// All that an epoch draws from the seed of its order.
enum class EpochStream : uint64_t { Order = 0, Samples = 1 };

inline at::Generator random_stream(int64_t seed, RandomStream stream) {
  return deq::random_stream(static_cast<uint64_t>(seed), static_cast<uint64_t>(stream));
}

inline uint64_t random_key(int64_t seed, RandomStream stream, int64_t step = 0) {
  return deq::random_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(stream),
                         static_cast<uint64_t>(step));
}

/// The number of one epoch's stream, as random_stream and random_key take it.
inline uint64_t epoch_stream(EpochStream stream, int64_t epoch) {
  return deq::random_key(static_cast<uint64_t>(stream), static_cast<uint64_t>(epoch));
}

}  // namespace deq::lab
