#include <c10/util/Exception.h>

#include <exception>
#include <iostream>

#include "commands.h"
#include "deq/core/error.h"
#include "deq/version.h"

namespace {

constexpr int kFailed = 1;
constexpr int kMisuse = 2;

int complain(const std::string& message, int status) {
  std::cerr << c10::str("deq: ", message, "\n");  // one write: several processes may fail at once
  return status;
}

}  // namespace

int main(int argc, char** argv) {
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
      command += " " + parsed.front()->get_name();
      parsed = parsed.front()->get_subcommands();
    }
    return std::string("deq: ") + error.what() + "\nRun `" + command +
           " --help` for what is allowed.\n";
  });
  deq::cli::add_train(program);
  deq::cli::add_eval(program);
  deq::cli::add_predict(program);
  deq::cli::add_generate(program);
  deq::cli::add_data(program);
  deq::cli::add_demo(program);
  deq::cli::add_report(program);
  deq::cli::add_reproduce(program);
  deq::cli::add_convert(program);
  deq::cli::add_bench(program);
  deq::cli::add_doctor(program);
  try {
    program.parse(argc, argv);
  } catch (const deq::cli::ExitStatus& exit) {
    return exit.status;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : kMisuse;
  } catch (const deq::UsageError& error) {
    return complain(error.what(), kMisuse);
  } catch (const deq::Error& error) {
    return complain(error.what(), kFailed);
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace(), kFailed);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailed);
  }
  return 0;
}
