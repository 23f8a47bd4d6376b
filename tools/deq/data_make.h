#pragma once

#include <CLI/CLI.hpp>

namespace deq::lab::cli {

/// `deq data make`: puzzles, made here.
void add_make(CLI::App& data);

}  // namespace deq::lab::cli
