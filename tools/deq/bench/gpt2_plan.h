#pragma once

#include "commands.h"

namespace deq::lab::cli {

/// `deq bench gpt2 --plan`: what memory a training of Megatron's GPT-2 takes, without one.
void add_gpt2_plan(CLI::App& bench);

}  // namespace deq::lab::cli
