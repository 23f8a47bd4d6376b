#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "data.h"

namespace deq::lab::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kListedClasses = 20;

std::string size_text(const ImageSize& size) {
  return fmt::format("{} × {}", size.width, size.height);
}

std::string count_text(int64_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string classes_text(const ImageSummary& summary) {
  if (summary.classes.empty()) return "no class";
  const auto [few, many] = std::minmax_element(
      summary.classes.begin(), summary.classes.end(),
      [](const auto& one, const auto& other) { return one.images < other.images; });
  const auto each = few->images == many->images
                        ? fmt::format("{} each", few->images)
                        : fmt::format("{} to {} each", few->images, many->images);
  return fmt::format("{} with {}",
                     count_text(static_cast<int64_t>(summary.classes.size()), "class", "classes"),
                     each);
}

std::string sizes_text(const ImageSummary& summary) {
  if (summary.smallest == summary.largest) return size_text(summary.largest) + ", all of them";
  return fmt::format("{} to {}, median {} (width × height, each by itself)",
                     size_text(summary.smallest), size_text(summary.largest),
                     size_text(summary.median));
}

std::string channels_text(const ImageSummary& summary) {
  std::string text;
  for (const auto& [channels, images] : summary.channels) {
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", channels,
                        summary.channels.size() == 1 ? "all of them" : std::to_string(images));
  }
  return text;
}

std::string numbers_text(const std::array<double, 3>& numbers) {
  return fmt::format("{:.4f} {:.4f} {:.4f}", numbers[0], numbers[1], numbers[2]);
}

/// The line of a configuration that reads it.
std::string key_of(ImageLayout layout) {
  return layout == ImageLayout::Masks ? "experiment = \"segmentation\""
                                      : fmt::format("data.format = \"{}\"", format_key(layout));
}

void print_split(const ImageCheck::Split& split, ImageLayout layout) {
  const auto& [name, summary] = split;
  std::cout << fmt::format(
      "{}{}, {}, {}\n", name.empty() ? "" : name + ": ",
      count_text(summary.images, "image", "images"),
      layout == ImageLayout::Masks ? "each with a mask" : classes_text(summary),
      bytes_text(summary.bytes));
  if (!summary.channels.empty()) {
    std::cout << fmt::format("  size       {}\n  channels   {}\n", sizes_text(summary),
                             channels_text(summary));
    std::cout << fmt::format("  mean       {}  (red, green, blue on the scale 0 to 1)\n",
                             numbers_text(summary.mean));
    std::cout << fmt::format("  deviation  {}\n", numbers_text(summary.deviation));
    std::cout << (summary.examined == summary.images
                      ? "  measured   on all images\n"
                      : fmt::format("  measured   on {} images, spread evenly\n",
                                    summary.examined));
  }
  if (summary.classes.size() > kListedClasses || layout == ImageLayout::Masks) return;
  std::string list;
  for (const auto& [label, images] : summary.classes) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", label, images);
  }
  std::cout << "  classes    " << list << '\n';
}

Json side(int64_t smallest, int64_t median, int64_t largest) {
  return {{"min", smallest}, {"median", median}, {"max", largest}};
}

Json split_json(const ImageCheck::Split& split) {
  const auto& summary = split.summary;
  Json classes = Json::object(), channels = Json::object();
  for (const auto& [name, images] : summary.classes) classes[name] = images;
  for (const auto& [count, images] : summary.channels) channels[std::to_string(count)] = images;
  Json object{{"split", split.name},          {"images", summary.images},
              {"bytes", summary.bytes},       {"classes", classes},
              {"examined", summary.examined}, {"unreadable", summary.unreadable.size()}};
  if (summary.channels.empty()) return object;
  object["width"] = side(summary.smallest.width, summary.median.width, summary.largest.width);
  object["height"] = side(summary.smallest.height, summary.median.height, summary.largest.height);
  object["channels"] = channels;
  object["mean"] = summary.mean;
  object["deviation"] = summary.deviation;
  return object;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

Json to_json(const ImageCheck& check) {
  Json splits = Json::array();
  for (const auto& split : check.splits) splits.push_back(split_json(split));
  return {{"path", check.found.folder.string()},
          {"format", format_key(check.found.layout)},
          {"description", description(check.found.layout)},
          {"splits", splits},
          {"problems", problems_json(check.problems)},
          {"passed_over", check.passed_over}};
}

void print_json(const Json& object) {
  std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_summary(const ImageCheck& check) {
  std::cout << fmt::format("{}: {} ({})\n", check.found.folder.string(),
                           description(check.found.layout), key_of(check.found.layout));
  for (const auto& split : check.splits) print_split(split, check.found.layout);
}

void print_problems(const ImageCheck& check, size_t shown) {
  print_named(check.problems, shown);
  if (!check.passed_over.empty()) {
    std::cout << fmt::format("not used: {}, such as {}\n",
                             count_text(static_cast<int64_t>(check.passed_over.size()),
                                        "file or folder", "files or folders"),
                             check.passed_over.front());
  }
}

std::string suggested_config(const ImageCheck& check, const std::string& path) {
  const auto quoted = nlohmann::json(path).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (check.found.layout == ImageLayout::Masks) {
    return fmt::format("{}\n\n[data]\npath = {}\n", key_of(check.found.layout), quoted);
  }
  const auto& summary = check.splits.front().summary;
  const auto& size = summary.largest;
  // Sets that fit into memory as they are: one size, no larger than such images usually are.
  const bool small = summary.smallest == size && size.height == size.width && size.height <= 96;
  return fmt::format(
      "[data]\nformat = \"{}\"\npath = {}\ntransform = \"{}\"\nimage_size = {}\n\n"
      "[model]\nclasses = {}\n",
      format_key(check.found.layout), quoted, small ? "cifar10" : "imagenet",
      small ? size.height : 224, summary.classes.size());
}

}  // namespace deq::lab::cli
