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
#include "deq/lab/data/puzzles/puzzle_set.h"
#include "lab/base/two_numbers.h"
#include "lab/io/atomic_folder.h"

namespace deq::lab::cli {
namespace {

namespace fs = std::filesystem;

// Far beyond any memory, and a number that can be counted.
constexpr int64_t kMostPuzzles = 1'000'000'000;

/// What all kinds of puzzles are asked for with.
struct MakeArguments {
  std::string out;
  int64_t train = 1000, test = 1000;
  uint64_t seed = 0;
  bool json = false;
};

using Wanted = decltype(PuzzleSetOptions::wanted);
using Puzzles = std::vector<Puzzle>;

double mean_of(const Puzzles& puzzles, const std::function<int64_t(const Puzzle&)>& f) {
  double sum = 0;
  for (const auto& puzzle : puzzles) sum += static_cast<double>(f(puzzle));
  return sum / static_cast<double>(puzzles.size());
}

/// How many cells of a question hold a 0: blanks of a Sudoku, walls of a maze.
int64_t zeros_in(const Puzzle& puzzle) {
  return std::ranges::count(puzzle.question, 0);
}

nlohmann::ordered_json facts_of(const std::string& split, const PuzzleSet& set) {
  const auto& puzzles = set.puzzles;
  const auto rating = [](const Puzzle& puzzle) { return puzzle.rating; };
  const auto [least, most] = std::ranges::minmax(puzzles, {}, rating);
  nlohmann::ordered_json facts{{"split", split}, {"puzzles", puzzles.size()}};
  if (std::holds_alternative<MazeShape>(set.shape)) {
    facts["walls"] = mean_of(puzzles, zeros_in);
  } else {
    facts["digits"] = static_cast<double>(cells_of(set.shape)) - mean_of(puzzles, zeros_in);
  }
  facts["rating"] = mean_of(puzzles, rating);
  facts["least_rating"] = least.rating;
  facts["most_rating"] = most.rating;
  return facts;
}

/// What the facts of a split are in words.
std::string in_words(const nlohmann::ordered_json& facts, const PuzzleShape& shape) {
  const auto mean = [&facts](const char* name) { return facts[name].get<double>(); };
  const auto count = [&facts](const char* name) { return facts[name].get<int64_t>(); };
  if (std::holds_alternative<MazeShape>(shape)) {
    return fmt::format(
        "{} mazes of {}, {:.1f} walls and a path of {:.1f} cells on average ({} to {})",
        count("puzzles"), size_of(shape), mean("walls"), mean("rating"), count("least_rating"),
        count("most_rating"));
  }
  return fmt::format("{} puzzles of {}, {:.1f} digits on average, rating {:.1f} ({} to {})",
                     count("puzzles"), size_of(shape), mean("digits"), mean("rating"),
                     count("least_rating"), count("most_rating"));
}

void make_sets(const MakeArguments& arguments, const Wanted& wanted) {
  const Interruption interruption;
  AtomicFolder whole(arguments.out);
  const auto bar = std::make_shared<ProgressBar>("making", "puzzles", arguments.json);
  auto all = make_puzzles({.wanted = wanted,
                           .count = arguments.train + arguments.test,
                           .seed = arguments.seed,
                           .progress = shown_and_stopped_by(bar)});
  bar->clear();
  const auto first_tested = all.puzzles.begin() + arguments.train;
  const PuzzleSet tested{.shape = all.shape, .puzzles = Puzzles(first_tested, all.puzzles.end())};
  all.puzzles.resize(static_cast<size_t>(arguments.train));
  auto splits = nlohmann::ordered_json::array();
  for (const auto& [name, part] : {std::pair{"train", &std::as_const(all)}, {"test", &tested}}) {
    write_puzzles(whole.path() / fmt::format("{}.csv", name), *part);
    splits.push_back(facts_of(name, *part));
  }
  whole.commit();
  if (arguments.json) return print_json({{"out", arguments.out}, {"splits", splits}});
  for (const auto& split : splits) {
    const auto file = fs::path(arguments.out) / (split["split"].get<std::string>() + ".csv");
    std::cout << file.string() << ": " << in_words(split, all.shape) << '\n';
  }
}

void add_make_arguments(CLI::App& command, MakeArguments& arguments) {
  command.add_option("OUT", arguments.out, "the folder to make; must not exist")->required();
  command.add_option("--train", arguments.train, "puzzles of train.csv")
      ->capture_default_str()
      ->check(size_up_to(kMostPuzzles));
  command.add_option("--test", arguments.test, "puzzles of test.csv")
      ->capture_default_str()
      ->check(size_up_to(kMostPuzzles));
  command.add_option("--seed", arguments.seed, "the same seed gives the same puzzles")
      ->capture_default_str()
      ->check(whole_number);
  command.add_flag("--json", arguments.json, "print one JSON object, and no progress");
}

void add_sudoku(CLI::App& make) {
  const auto arguments = std::make_shared<MakeArguments>();
  const auto wanted = std::make_shared<SudokuWanted>();
  auto* sudoku = make.add_subcommand(
      "sudoku",
      "Sudoku with one answer each, none of whose digits could be left out: OUT/train.csv and "
      "OUT/test.csv, no puzzle twice.");
  add_make_arguments(*sudoku, *arguments);
  const auto boxes = std::make_shared<std::string>("3x3");
  const std::map<std::string, SudokuShape> shapes{
      {"2x2", {2, 2}}, {"2x3", {2, 3}}, {"2x4", {2, 4}}, {"3x3", {3, 3}}};
  sudoku->add_option("--boxes", *boxes, "rows and columns of a box: 2x2, 2x3, 2x4 or 3x3")
      ->capture_default_str()
      ->check([shapes](const std::string& text) {
        return shapes.contains(text) ? std::string() : "must be 2x2, 2x3, 2x4 or 3x3, not " + text;
      });
  sudoku
      ->add_option("--rating", wanted->least_rating,
                   "take only puzzles for which a solver tries so many digits in vain, or more")
      ->capture_default_str()
      ->check(whole_number);
  sudoku->callback([arguments, wanted, boxes, shapes] {
    wanted->shape = shapes.at(*boxes);
    make_sets(*arguments, *wanted);
  });
}

void add_maze(CLI::App& make) {
  const auto arguments = std::make_shared<MakeArguments>();
  const auto size = std::make_shared<std::string>("30x30"),
             path = std::make_shared<std::string>("100:140");
  auto* maze = make.add_subcommand(
      "maze",
      "Mazes with one way between any two open cells, and the path from start to goal as the "
      "answer: OUT/train.csv and OUT/test.csv, no maze twice.");
  add_make_arguments(*maze, *arguments);
  maze->add_option("--size", *size, "rows and columns, walls counted")
      ->capture_default_str()
      ->check([](const std::string& text) {
        const auto lines = two_numbers(text, 'x');
        return lines && lines->first >= 2 && lines->second >= 2
                   ? std::string()
                   : "must be two whole numbers from 2 on, like 30x30, not " + text;
      });
  maze->add_option("--path", *path, "cells of a path at least and at most, both ends counted")
      ->capture_default_str()
      ->check([](const std::string& text) {
        const auto cells = two_numbers(text, ':');
        return cells && cells->first >= 2 && cells->second >= cells->first
                   ? std::string()
                   : "must be two whole numbers from 2 on, like 100:140, the second no smaller "
                     "than "
                     "the first, not " +
                         text;
      });
  maze->callback([arguments, size, path] {
    const auto lines = two_numbers(*size, 'x').value(), cells = two_numbers(*path, ':').value();
    make_sets(*arguments, MazeWanted{.shape = {.rows = lines.first, .columns = lines.second},
                                     .least_path = cells.first,
                                     .most_path = cells.second});
  });
}

}  // namespace

void add_make(CLI::App& data) {
  auto* make = data.add_subcommand("make", "Make puzzles.");
  make->require_subcommand(1);
  add_sudoku(*make);
  add_maze(*make);
}

}  // namespace deq::lab::cli
