#pragma once

#include <nlohmann/json.hpp>

#include "lab/data/text/text_check.h"

// What `deq data summary` and `deq data check` say about a text.

namespace deq::lab::cli {

nlohmann::ordered_json to_json(const TextCheck& check);

/// The splits with their counts, and what a model of these words would be given.
void print_summary(const TextCheck& check);

/// The first of the problems, and how many there are.
void print_problems(const TextCheck& check, size_t shown);

}  // namespace deq::lab::cli
