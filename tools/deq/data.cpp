#include "data.h"

#include <iostream>
#include <memory>

#include "checks.h"
#include "core/require.h"
#include "data_make.h"
#include "data_text.h"
#include "data_work.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/archive.h"
#include "deq/lab/data/images/cifar.h"
#include "deq/lab/data/images/pack_splits.h"
#include "lab/io/atomic_folder.h"

namespace deq::lab::cli {
namespace {

namespace fs = std::filesystem;

struct DataArguments {
  std::string in, out;
  int64_t samples = 10000, shard_mib = 1024;
  size_t shown = 20;
  bool all = false, skip_unreadable = false, json = false;
};

constexpr int kSomethingIsWrong = 1;

ImageCheck look_at(const fs::path& folder, bool quiet, std::optional<int64_t> max_images) {
  const auto bar = std::make_shared<ProgressBar>("decoding", "images", quiet);
  auto check = check_images(folder, {.max_images = max_images, .progress = shown_by(bar)});
  bar->clear();
  return check;
}

template <class Check>
void summarise(const Check& check, const DataArguments& arguments) {
  if (arguments.json) return print_json(to_json(check));
  print_summary(check);
  if (!check.problems.empty()) {
    std::cerr << fmt::format("deq: something is wrong with {}, run `deq data check {}`\n",
                             arguments.in, arguments.in);
  }
}

void summary(const DataArguments& arguments) {
  if (holds_texts(arguments.in)) return summarise(check_texts(arguments.in), arguments);
  const auto most = arguments.all ? std::nullopt : std::optional(arguments.samples);
  summarise(look_at(arguments.in, arguments.json, most), arguments);
}

std::string contents(const ImageCheck& check) {
  int64_t images = 0;
  for (const auto& split : check.splits) images += split.summary.images;
  return fmt::format("{} images", images);
}

std::string contents(const TextCheck& check) {
  int64_t words = 0;
  for (const auto& split : check.splits) words += split.words;
  return fmt::format("{} words", words);
}

template <class Check>
void judge(const Check& check, const DataArguments& arguments) {
  if (arguments.json) {
    print_json(to_json(check));
  } else {
    print_problems(check, arguments.shown);
    std::cout << fmt::format("{}: {}, {} problems\n", arguments.in, contents(check),
                             check.problems.size());
  }
  if (!check.problems.empty()) throw ExitStatus{kSomethingIsWrong};
}

void check(const DataArguments& arguments) {
  if (holds_texts(arguments.in)) return judge(check_texts(arguments.in), arguments);
  judge(look_at(arguments.in, arguments.json, std::nullopt), arguments);
}

void pack(const DataArguments& arguments) {
  const Interruption interruption;
  const auto bar = std::make_shared<ProgressBar>("packing", "images", arguments.json);
  const auto packed = pack_splits(
      arguments.in, arguments.out,
      {.shard_bytes = arguments.shard_mib << 20,
       .on_unreadable = arguments.skip_unreadable ? OnUnreadable::Skip : OnUnreadable::Fail,
       .progress = shown_and_stopped_by(bar)});
  bar->clear();
  auto splits = nlohmann::ordered_json::array();
  for (const auto& [name, report] : packed) {
    const auto where = name.empty() ? "" : name + "/";
    auto skipped = nlohmann::ordered_json::array();
    for (const auto& image : report.skipped) {
      std::cerr << fmt::format("deq: {}{} is left out: {}\n", where, image.name, image.reason);
      skipped.push_back({{"name", image.name}, {"reason", image.reason}});
    }
    splits.push_back({{"split", name},
                      {"images", report.images},
                      {"files", report.shards},
                      {"bytes", report.bytes},
                      {"skipped", skipped}});
    if (!arguments.json) {
      std::cout << fmt::format("{}: {} images in {} {}, {:.1f} MiB, {} left out\n",
                               (fs::path(arguments.out) / name).string(), report.images,
                               report.shards, report.shards == 1 ? "file" : "files",
                               static_cast<double>(report.bytes) / (1 << 20),
                               report.skipped.size());
    }
  }
  if (arguments.json) print_json({{"out", arguments.out}, {"splits", splits}});
}

/// The set in an unpacked archive: in the folder, or in the only folder that it holds, and so on.
fs::path set_within(const fs::path& folder, const std::string& archive) {
  for (auto found = folder;;) {
    try {
      return find_images(found).folder;
    } catch (const UsageError&) {
      require(!holds_python_cifar10(found), "{}{}", archive, kPythonCifar10IsNotRead);
      const std::vector<fs::directory_entry> entries{fs::directory_iterator(found), {}};
      require(entries.size() == 1 && entries[0].is_directory(),
              "{} holds no images that deq knows: neither CIFAR-10's files nor folders of classes "
              "with .jpg, .jpeg or .png files",
              archive);
      found = entries[0].path();
    }
  }
}

void prepare(const DataArguments& arguments) {
  const Interruption interruption;
  AtomicFolder whole(arguments.out);
  unpack_archive(arguments.in, whole.path());
  stop_if_interrupted();
  const auto inner = set_within(whole.path(), arguments.in).lexically_relative(whole.path());
  whole.commit();
  const auto folder = (fs::path(arguments.out) / inner).lexically_normal();
  const auto path = folder.has_filename() ? folder.string() : folder.parent_path().string();
  const auto check = look_at(path, arguments.json, std::nullopt);
  if (arguments.json) {
    auto object = to_json(check);
    if (!check.splits.empty()) object["config"] = suggested_config(check, path);
    print_json(object);
  } else {
    print_summary(check);
    print_problems(check, arguments.shown);
    if (!check.splits.empty()) {
      std::cout << "\nFor the configuration:\n\n" << suggested_config(check, path);
    }
  }
  if (!check.problems.empty()) throw ExitStatus{kSomethingIsWrong};
}

constexpr const char* kSetHelp =
    "a folder with train/ and test/ (or val/) of class folders, class folders themselves, a packed "
    "set, CIFAR-10's own files, or a text: train.txt, valid.txt, test.txt";

void add_json(CLI::App* command, const std::shared_ptr<DataArguments>& arguments) {
  command->add_flag("--json", arguments->json, "print one JSON object, and no progress");
}

void add_shown(CLI::App* command, const std::shared_ptr<DataArguments>& arguments) {
  command->add_option("--show", arguments->shown, "name this many problems, count the rest")
      ->capture_default_str()
      ->check(whole_number);
}

void add_summary(CLI::App& data) {
  const auto arguments = std::make_shared<DataArguments>();
  auto* command = data.add_subcommand(
      "summary",
      "Tell what is there. Of images: splits, classes, sizes, channels, mean and deviation; of a "
      "text: words, vocabulary, and how much of it the training text does not have.");
  command->add_option("PATH", arguments->in, kSetHelp)->required();
  auto* samples = command
                      ->add_option("--samples", arguments->samples,
                                   "decode at most this many images of a split, spread evenly")
                      ->capture_default_str()
                      ->check(positive_whole_number);
  command->add_flag("--all", arguments->all, "decode all images")->excludes(samples);
  add_json(command, arguments);
  command->callback([arguments] { summary(*arguments); });
}

void add_check(CLI::App& data) {
  const auto arguments = std::make_shared<DataArguments>();
  auto* command = data.add_subcommand(
      "check",
      "Decode every image or read every text, and name what is damaged, missing or unequal; status "
      "1 if anything is.");
  command->add_option("PATH", arguments->in, kSetHelp)->required();
  add_shown(command, arguments);
  add_json(command, arguments);
  command->callback([arguments] { check(*arguments); });
}

void add_pack(CLI::App& data) {
  const auto arguments = std::make_shared<DataArguments>();
  auto* command = data.add_subcommand(
      "pack",
      "Copy an image folder into a few large files, which stream faster (data.format = "
      "\"packed\").");
  command->add_option("FOLDER", arguments->in, "train/ and test/ (or val/) of class folders")
      ->required();
  command->add_option("OUT", arguments->out, "the folder to make; must not exist")->required();
  command->add_option("--shard-mib", arguments->shard_mib, "a file ends beyond this size, in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--skip-unreadable", arguments->skip_unreadable,
                    "leave out and name what cannot be read (default: stop, and leave nothing)");
  add_json(command, arguments);
  command->callback([arguments] { pack(*arguments); });
}

void add_prepare(CLI::App& data) {
  const auto arguments = std::make_shared<DataArguments>();
  auto* command =
      data.add_subcommand("prepare",
                          "Unpack a downloaded archive of images, check them, and print what a "
                          "configuration needs.");
  command
      ->add_option("ARCHIVE", arguments->in,
                   "cifar-10-binary.tar.gz, or a .tar, .tar.gz, .tar.xz of class folders")
      ->required();
  command->add_option("OUT", arguments->out, "the folder to make; must not exist")->required();
  add_shown(command, arguments);
  add_json(command, arguments);
  command->callback([arguments] { prepare(*arguments); });
}

}  // namespace

void add_data(CLI::App& program) {
  auto* data = program.add_subcommand(
      "data", "Look at images and texts, check them; pack and prepare images; make puzzles.");
  data->require_subcommand(1);
  add_summary(*data);
  add_check(*data);
  add_pack(*data);
  add_prepare(*data);
  add_make(*data);
}

}  // namespace deq::lab::cli
