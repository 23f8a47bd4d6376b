#include <iostream>
#include <memory>

#include "commands.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/report/html_report.h"
#include "output.h"

namespace deq::lab::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out, title = "libdeq report";
  bool json = false;
};

void run_report(const ReportArguments& arguments) {
  const std::vector<std::filesystem::path> runs(arguments.runs.begin(), arguments.runs.end());
  const auto file =
      arguments.out.empty() ? runs.front() / "report.html" : std::filesystem::path(arguments.out);
  write_file_atomically(file, render_report(runs, arguments.title));
  std::cout << (arguments.json ? to_json({{"report", file.string()}}) : file.string()) << '\n';
}

}  // namespace

void add_report(CLI::App& program) {
  const auto arguments = std::make_shared<ReportArguments>();
  auto* command = program.add_subcommand(
      "report", "Write one self-contained HTML page on one or several runs, side by side.");
  command->add_option("RUN", arguments->runs, "run folders")->required();
  command->add_option("--out", arguments->out, "the file (default: report.html in the first run)");
  command->add_option("--title", arguments->title, "the page's title")->capture_default_str();
  command->add_flag("--json", arguments->json, "print the file's name in a JSON object");
  command->callback([arguments] { run_report(*arguments); });
}

}  // namespace deq::lab::cli
