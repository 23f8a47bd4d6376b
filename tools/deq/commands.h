#pragma once

#include <CLI/CLI.hpp>

#include "lab/train/interruption.h"

// One file per subcommand. Each adds itself to the program; its work runs when the command line
// names it.

namespace deq::lab::cli {

constexpr int kFailed = 1;
constexpr int kMisuse = 2;

/// Thrown where a command has said all there is to say and leaves with a status of its own.
struct ExitStatus {
  int status = 0;
};

/// Throws where a signal asked for an end, so that what is half done is cleared away.
inline void stop_if_interrupted() {
  if (const int signal = Interruption::requested()) throw ExitStatus{128 + signal};
}

void add_train(CLI::App& program);
void add_eval(CLI::App& program);
void add_predict(CLI::App& program);
void add_generate(CLI::App& program);
void add_data(CLI::App& program);
void add_demo(CLI::App& program);
void add_report(CLI::App& program);
void add_reproduce(CLI::App& program);
void add_convert(CLI::App& program);
void add_doctor(CLI::App& program);
void add_bench(CLI::App& program);

}  // namespace deq::lab::cli
