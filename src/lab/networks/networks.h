#pragma once

#include <memory>

#include "lab/networks/language_network.h"

// The networks that predict words, each in a file of its own.

namespace deq::lab {

/// For a text of so many different words.
std::unique_ptr<LanguageNetwork> make_network(const DeqTransformerModel& model, int64_t words,
                                              const at::Generator& generator);
std::unique_ptr<LanguageNetwork> make_network(const TransformerXlModel& model, int64_t words,
                                              const at::Generator& generator);
std::unique_ptr<LanguageNetwork> make_network(const LoopedModel& model, int64_t words,
                                              const at::Generator& generator);
std::unique_ptr<LanguageNetwork> make_network(const QrnnModel& model, int64_t words,
                                              const at::Generator& generator);
std::unique_ptr<LanguageNetwork> make_network(const RelationalMemoryModel& model, int64_t words,
                                              const at::Generator& generator);
std::unique_ptr<LanguageNetwork> make_network(const Gpt2Model& model, int64_t words,
                                              const at::Generator& generator,
                                              std::shared_ptr<models::TensorParallel> group = {});

}  // namespace deq::lab
