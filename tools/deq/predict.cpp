#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checks.h"
#include "commands.h"
#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/train/predictor.h"
#include "lab/base/device.h"
#include "run_arguments.h"

namespace deq::lab::cli {
namespace {

struct PredictArguments : RunArguments {
  std::vector<std::string> images;
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

constexpr int kUnreadable = 1, kMissing = 2;

/// 0, or the status that an image without a prediction leads to.
int predict_one(Predictor& predictor, const std::string& image, const PredictArguments& arguments) {
  try {
    const auto prediction = predictor.predict(read_file(image));
    if (arguments.json) {
      print_prediction_json(as_json(image, prediction, predictor.classes(), arguments.top));
    } else {
      print_text(image, prediction, predictor.classes(), arguments.top);
    }
    return 0;
  } catch (const Error& error) {
    std::cerr << "deq: " << image << " cannot be read: " << error.what() << '\n';
    if (arguments.json) print_prediction_json({{"image", image}, {"error", error.what()}});
    return std::filesystem::exists(image) ? kUnreadable : kMissing;
  }
}

void run_predict(const PredictArguments& arguments) {
  Predictor predictor(arguments.run, usable_device(arguments.device), arguments.which(),
                      arguments.overrides);
  print_warnings(predictor.warnings());
  int status = 0;
  for (const auto& image : arguments.images) {
    status = std::max(status, predict_one(predictor, image, arguments));
  }
  if (status != 0) throw ExitStatus{status};
}

}  // namespace

void add_predict(CLI::App& program) {
  const auto arguments = std::make_shared<PredictArguments>();
  auto* command = program.add_subcommand(
      "predict", "Say what images show, with the model of a run. The run's data is not needed.");
  add_run_arguments(*command, *arguments, "solver.forward.max_evals=20");
  command->add_option("IMAGE", arguments->images, "JPEG or PNG files of any size")->required();
  command->add_option("--top", arguments->top, "so many classes for each, the likeliest first")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_flag("--json", arguments->json, "print one JSON object for each image");
  command->callback([arguments] { run_predict(*arguments); });
}

}  // namespace deq::lab::cli
