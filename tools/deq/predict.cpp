#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checks.h"
#include "commands.h"
#include "deq/core/error.h"
#include "deq/lab/data/puzzles/puzzle_shape.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/trained/predictor.h"
#include "deq/lab/trained/puzzle_solver.h"
#include "lab/base/device.h"
#include "run_arguments.h"

namespace deq::lab::cli {
namespace {

struct PredictArguments : RunArguments {
  std::vector<std::string> files;
  int64_t top = 5;
  bool json = false;
};

/// The likeliest classes, the likeliest first.
std::vector<size_t> likeliest(const std::vector<double>& probabilities, int64_t wanted) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(wanted)));
  return order;
}

void print_text(const std::string& image, const Prediction& prediction,
                const std::vector<std::string>& classes, int64_t top) {
  std::cout << image << '\n';
  for (const size_t i : likeliest(prediction.probabilities, top)) {
    std::cout << fmt::format("  {:6.2f} %  {}\n", 100 * prediction.probabilities[i], classes[i]);
  }
  if (const auto& solve = prediction.solve) {
    std::cout << fmt::format("  {} after {} evaluations, relative residual {:.2e}\n",
                             status_name(solve->status), solve->evaluations, solve->relative);
  }
}

void print_prediction_json(const nlohmann::ordered_json& object) {
  // Names of files and folders need not be UTF-8.
  std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

nlohmann::ordered_json as_json(const std::string& image, const Prediction& prediction,
                               const std::vector<std::string>& classes, int64_t top) {
  auto list = nlohmann::ordered_json::array();
  for (const size_t i : likeliest(prediction.probabilities, top)) {
    list.push_back(
        {{"class", classes[i]}, {"index", i}, {"probability", prediction.probabilities[i]}});
  }
  nlohmann::ordered_json object{{"image", image}, {"classes", list}};
  if (const auto& solve = prediction.solve) {
    object["evaluations"] = solve->evaluations;
    object["residual"] = solve->relative;
    object["status"] = status_name(solve->status);
  }
  return object;
}

void print_answer(const std::string& file, const PuzzleSolver& solver, const PuzzleAnswer& answer) {
  std::cout << file << '\n' << draw_puzzle(solver.shape(), answer.grid);
  std::cout << fmt::format("  {}; {} after {} evaluations, relative residual {:.2e}\n",
                           answer.right ? "it keeps the rules" : "it breaks the rules",
                           status_name(answer.solve.status), answer.solve.evaluations,
                           answer.solve.relative);
}

nlohmann::ordered_json as_json(const std::string& file, const PuzzleSolver& solver,
                               const PuzzleAnswer& answer) {
  auto way = nlohmann::ordered_json::array();
  for (const auto& grid : answer.way) way.push_back(line_of(solver.shape(), grid));
  return {{"puzzle", file},
          {"answer", line_of(solver.shape(), answer.grid)},
          {"right", answer.right},
          {"evaluations", answer.solve.evaluations},
          {"residual", answer.solve.relative},
          {"status", status_name(answer.solve.status)},
          {"way", way}};
}

constexpr int kUnreadable = 1, kMissing = 2;

/// What `predict` says of each file, one after the other. Throws the worst status that a file
/// without a prediction led to, which does not keep the others from theirs. `kind` is what a file
/// is: "image".
void predict_each(const PredictArguments& arguments, const char* kind,
                  const std::function<void(const std::string& file)>& predict) {
  int status = 0;
  for (const auto& file : arguments.files) {
    try {
      predict(file);
    } catch (const Error& error) {
      std::cerr << "deq: " << file << " cannot be read: " << error.what() << '\n';
      if (arguments.json) print_prediction_json({{kind, file}, {"error", error.what()}});
      status = std::max(status, std::filesystem::exists(file) ? kUnreadable : kMissing);
    }
  }
  if (status != 0) throw ExitStatus{status};
}

void predict_images(const PredictArguments& arguments) {
  Predictor predictor(arguments.run, usable_device(arguments.device), arguments.which(),
                      arguments.overrides);
  print_warnings(predictor.warnings());
  predict_each(arguments, "image", [&](const std::string& image) {
    const auto prediction = predictor.predict(read_file(image));
    if (arguments.json) {
      print_prediction_json(as_json(image, prediction, predictor.classes(), arguments.top));
    } else {
      print_text(image, prediction, predictor.classes(), arguments.top);
    }
  });
}

void solve_puzzles(const PredictArguments& arguments) {
  PuzzleSolver solver(arguments.run, usable_device(arguments.device), arguments.which(),
                      arguments.overrides);
  print_warnings(solver.warnings());
  predict_each(arguments, "puzzle", [&](const std::string& file) {
    const auto answer = solver.solve(parse_puzzle(solver.shape(), read_file(file)));
    if (arguments.json) {
      print_prediction_json(as_json(file, solver, answer));
    } else {
      print_answer(file, solver, answer);
    }
  });
}

void run_predict(const PredictArguments& arguments) {
  require_run(arguments.run);
  const bool puzzles =
      read_experiment(config_file(arguments.run), arguments.overrides).name == "reasoning";
  puzzles ? solve_puzzles(arguments) : predict_images(arguments);
}

}  // namespace

void add_predict(CLI::App& program) {
  const auto arguments = std::make_shared<PredictArguments>();
  auto* command =
      program.add_subcommand("predict",
                             "Say what images show, or solve puzzles, with the model of a "
                             "run. The run's data is not needed.");
  add_run_arguments(*command, *arguments, "solver.forward.max_evals=20");
  command
      ->add_option(
          "FILE", arguments->files,
          "JPEG or PNG files of any size; or texts with a puzzle each: digits, with dots for "
          "blanks; or #, S and G, with spaces or dots for open cells")
      ->required();
  command
      ->add_option("--top", arguments->top, "so many classes for each image, the likeliest first")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_flag("--json", arguments->json, "print one JSON object for each file");
  command->callback([arguments] { run_predict(*arguments); });
}

}  // namespace deq::lab::cli
