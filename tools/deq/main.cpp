#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "commands.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/version.h"
#include "lab/base/likely_name.h"
#include "standard_output.h"
#include "torch_errors.h"

namespace {

using deq::lab::cli::kFailed;
using deq::lab::cli::kMisuse;
constexpr int kReaderIsGone = 128 + SIGPIPE;

int complain(const std::string& message, int status) {
  std::cerr << fmt::format("deq: {}\n", message);  // one write: several processes may fail at once
  return status;
}

/// "; did you mean …?" where one of the names comes close.
std::string meant(std::string_view typed, const std::vector<std::string_view>& names) {
  const auto likely = deq::lab::likely_name(typed, names);
  return likely.empty() ? "" : fmt::format("; did you mean {}?", likely);
}

/// The long names of a command's options, with their dashes.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// What a command has no option for. CLI11 names the value before the option.
std::string unknown_option(const std::string& command, const CLI::App& app,
                           const std::string& typed) {
  const auto names = option_names(app);
  return fmt::format("{} has no option {}{}", command, typed,
                     meant(typed, {names.begin(), names.end()}));
}

/// Of what stands for a command and is none. CLI11 would only say that one is missing.
void require_known_command(const CLI::App& program, int argc, char** argv) {
  const auto* app = &program;
  std::string path;
  if (argc > 1 && argv[1][0] == '-' && program.get_option_no_throw(argv[1]) == nullptr) {
    throw deq::lab::UsageError(fmt::format("{}\nRun `deq --help` for what there is.",
                                           unknown_option("deq", program, argv[1])));
  }
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string_view> names;
    const CLI::App* next = nullptr;
    for (const auto* command : app->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name());
      if (command->get_name() == argv[i]) next = command;
    }
    if (names.empty()) return;  // what follows are arguments
    if (next == nullptr) {
      const auto likely = deq::lab::likely_name(argv[i], names);
      throw deq::lab::UsageError(fmt::format(
          "unknown command {}{}{} Run `deq {}--help` for what there is.", path, argv[i],
          likely.empty() ? "." : fmt::format("; did you mean {}{}?", path, likely), path));
    }
    app = next;
    path += std::string(argv[i]) + " ";
  }
}

int run_program(int argc, char** argv) {
  CLI::App program(
      "Deep equilibrium models: networks whose output is the fixed point z* = f(z*; x) of one "
      "layer.\n"
      "New here? Run `deq demo`, then open the report it names.",
      "deq");
  program.set_version_flag("--version", std::string("deq ") + deq::version());
  program.require_subcommand(1);
  program.failure_message([](const CLI::App* app, const CLI::Error& error) {
    std::string command = "deq";
    for (auto parsed = app->get_subcommands(); !parsed.empty();) {
      app = parsed.front();
      command += " " + app->get_name();
      parsed = app->get_subcommands();
    }
    std::string said = error.what();
    const auto left = app->remaining();
    const auto option = std::ranges::find_if(
        left, [](const std::string& argument) { return argument.starts_with("--"); });
    if (option != left.end()) said = unknown_option(command, *app, *option);
    return "deq: " + said + "\nRun `" + command + " --help` for what is allowed.\n";
  });
  deq::lab::cli::add_train(program);
  deq::lab::cli::add_eval(program);
  deq::lab::cli::add_predict(program);
  deq::lab::cli::add_generate(program);
  deq::lab::cli::add_data(program);
  deq::lab::cli::add_demo(program);
  deq::lab::cli::add_report(program);
  deq::lab::cli::add_reproduce(program);
  deq::lab::cli::add_convert(program);
  deq::lab::cli::add_bench(program);
  deq::lab::cli::add_doctor(program);
  const auto out_of_memory = [&program](const std::string& text) {
    const bool trains = program.got_subcommand("train") || program.got_subcommand("reproduce");
    return deq::lab::cli::out_of_memory(text, trains);
  };
  try {
    require_known_command(program, argc, argv);
    program.parse(argc, argv);
  } catch (const deq::lab::cli::ExitStatus& exit) {
    return exit.status;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : kMisuse;
  } catch (const deq::lab::UsageError& error) {
    return complain(error.what(), kMisuse);
  } catch (const deq::Error& error) {
    return complain(error.what(), kFailed);
  } catch (const c10::OutOfMemoryError& error) {
    return complain(out_of_memory(error.what_without_backtrace()), kFailed);
  } catch (const std::bad_alloc&) {
    return complain(out_of_memory(""), kFailed);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return complain(deq::lab::cli::is_out_of_memory(text) ? out_of_memory(text)
                                                          : deq::lab::cli::first_line(text),
                    kFailed);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailed);
  }
  return 0;
}

/// What could not be written was not said: its status is not that of success.
int status_after_output(int status, int failure) {
  if (failure == 0) return status;
  if (failure == EPIPE) return status == 0 ? kReaderIsGone : status;  // as if the signal had come
  return complain(
      fmt::format("cannot write to standard output: {}", std::generic_category().message(failure)),
      status == 0 ? kFailed : status);
}

}  // namespace

int main(int argc, char** argv) {
  deq::lab::cli::StandardOutput output;
  const int status = run_program(argc, argv);
  return status_after_output(status, output.finish());
}
