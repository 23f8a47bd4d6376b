#include "data_make.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "checks.h"
#include "core/format.h"
#include "data.h"
#include "data_work.h"
#include "deq/lab/data/puzzles/sudoku_set.h"
#include "lab/io/atomic_folder.h"

namespace deq::lab::cli {
namespace {

namespace fs = std::filesystem;

struct MakeArguments {
  std::string out;
  SudokuShape shape;
  int64_t train = 1000, test = 1000, rating = 0;
  uint64_t seed = 0;
  bool json = false;
};

double mean_of(const std::vector<Sudoku>& puzzles, const std::function<int64_t(const Sudoku&)>& f) {
  double sum = 0;
  for (const auto& puzzle : puzzles) sum += static_cast<double>(f(puzzle));
  return sum / static_cast<double>(puzzles.size());
}

nlohmann::ordered_json facts_of(const std::string& split, const std::vector<Sudoku>& puzzles) {
  const auto rating = [](const Sudoku& puzzle) { return puzzle.rating; };
  const auto [least, most] = std::ranges::minmax(puzzles, {}, rating);
  return {{"split", split},
          {"puzzles", puzzles.size()},
          {"digits", mean_of(puzzles,
                             [](const Sudoku& puzzle) {
                               return std::ssize(puzzle.question) -
                                      std::ranges::count(puzzle.question, 0);
                             })},
          {"rating", mean_of(puzzles, rating)},
          {"least_rating", least.rating},
          {"most_rating", most.rating}};
}

void make_sudoku_set(const MakeArguments& arguments) {
  const Interruption interruption;
  AtomicFolder whole(arguments.out);
  const auto bar = std::make_shared<ProgressBar>("making", "puzzles", arguments.json);
  auto puzzles = make_sudokus({.shape = arguments.shape,
                               .count = arguments.train + arguments.test,
                               .least_rating = arguments.rating,
                               .seed = arguments.seed,
                               .progress = shown_and_stopped_by(bar)});
  bar->clear();
  const std::vector<Sudoku> tested(puzzles.begin() + arguments.train, puzzles.end());
  puzzles.resize(static_cast<size_t>(arguments.train));
  auto splits = nlohmann::ordered_json::array();
  for (const auto& [name, part] :
       {std::pair{"train", &std::as_const(puzzles)}, {"test", &tested}}) {
    write_sudokus(whole.path() / fmt::format("{}.csv", name), {arguments.shape, *part});
    splits.push_back(facts_of(name, *part));
  }
  whole.commit();
  if (arguments.json) return print_json({{"out", arguments.out}, {"splits", splits}});
  for (const auto& split : splits) {
    std::cout << fmt::format(
        "{}: {} puzzles of {} × {}, {:.1f} digits on average, rating {:.1f} ({} to {})\n",
        (fs::path(arguments.out) / (split["split"].get<std::string>() + ".csv")).string(),
        split["puzzles"].get<int64_t>(), arguments.shape.side(), arguments.shape.side(),
        split["digits"].get<double>(), split["rating"].get<double>(),
        split["least_rating"].get<int64_t>(), split["most_rating"].get<int64_t>());
  }
}

}  // namespace

void add_make(CLI::App& data) {
  auto* make = data.add_subcommand("make", "Make puzzles.");
  make->require_subcommand(1);
  const auto arguments = std::make_shared<MakeArguments>();
  auto* sudoku = make->add_subcommand(
      "sudoku",
      "Sudoku with one answer each, none of whose digits could be left out: OUT/train.csv and "
      "OUT/test.csv, no puzzle twice.");
  sudoku->add_option("OUT", arguments->out, "the folder to make; must not exist")->required();
  sudoku->add_option("--train", arguments->train, "puzzles of train.csv")
      ->capture_default_str()
      ->check(positive_whole_number);
  sudoku->add_option("--test", arguments->test, "puzzles of test.csv")
      ->capture_default_str()
      ->check(positive_whole_number);
  const auto boxes = std::make_shared<std::string>("3x3");
  const std::map<std::string, SudokuShape> shapes{
      {"2x2", {2, 2}}, {"2x3", {2, 3}}, {"2x4", {2, 4}}, {"3x3", {3, 3}}};
  sudoku->add_option("--boxes", *boxes, "rows and columns of a box: 2x2, 2x3, 2x4 or 3x3")
      ->capture_default_str()
      ->check([shapes](const std::string& text) {
        return shapes.contains(text) ? std::string() : "must be 2x2, 2x3, 2x4 or 3x3, not " + text;
      });
  sudoku
      ->add_option("--rating", arguments->rating,
                   "take only puzzles for which a solver tries so many digits in vain, or more")
      ->capture_default_str()
      ->check(whole_number);
  sudoku->add_option("--seed", arguments->seed, "the same seed gives the same puzzles")
      ->capture_default_str()
      ->check(whole_number);
  sudoku->add_flag("--json", arguments->json, "print one JSON object, and no progress");
  sudoku->callback([arguments, boxes, shapes] {
    arguments->shape = shapes.at(*boxes);
    make_sudoku_set(*arguments);
  });
}

}  // namespace deq::lab::cli
