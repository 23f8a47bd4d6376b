#include "deq/lab/data/images/image_check.h"

#include <fmt/format.h>
#include <algorithm>

#include "deq/core/error.h"
#include "deq/lab/data/images/cifar.h"
#include "deq/lab/data/images/image_folder.h"
#include "deq/lab/data/images/packed_images.h"

namespace deq::lab {
namespace {

std::string path_within(const std::string& split, const std::string& rest) {
  return split.empty() ? rest : split + "/" + rest;
}

std::string named_split(const std::string& split) {
  return split.empty() ? "the folder" : split + "/";
}

ImageSummary summary_of(const FoundImages& found, const ImageSplit& split,
                        const SummaryOptions& options) {
  switch (found.layout) {
    case ImageLayout::Folder:
      return summarise(ImageFolder(split.folder, {}, EmptyClass::Keep), options);
    case ImageLayout::Packed:
      return summarise(PackedImages(split.folder), options);
    case ImageLayout::Cifar10:
      break;
  }
  return summarise(
      read_cifar10(split.folder, split.name == "train" ? CifarPart::Training : CifarPart::Test));
}

void check_split(const ImageCheck::Split& split, ImageCheck& check) {
  const auto& [name, summary] = split;
  for (const auto& image : summary.unreadable) {
    check.problems.push_back({path_within(name, image.name), image.reason});
  }
  for (const auto& [class_name, images] : summary.classes) {
    if (images == 0) {
      check.problems.push_back({path_within(name, class_name), "the class has no image"});
    }
  }
}

/// As it is published, CIFAR-10 has the same number of images in each class.
void check_cifar(const ImageCheck::Split& split, ImageCheck& check) {
  const auto& [name, summary] = split;
  const int64_t expected = summary.images / static_cast<int64_t>(summary.classes.size());
  for (const auto& [class_name, images] : summary.classes) {
    if (images != expected) {
      check.problems.push_back(
          {path_within(name, class_name),
           fmt::format("the class has {} images, must be {}", images, expected)});
    }
  }
}

bool has_class(const ImageSummary& summary, const std::string& name) {
  return std::any_of(summary.classes.begin(), summary.classes.end(),
                     [&name](const auto& other) { return other.name == name; });
}

void compare(const ImageCheck::Split& one, const ImageCheck::Split& other, ImageCheck& check) {
  for (const auto& [name, images] : one.summary.classes) {
    if (has_class(other.summary, name)) continue;
    check.problems.push_back(
        {path_within(other.name, name), fmt::format("the class is missing, {}/ has it", one.name)});
  }
}

void check_classes(ImageCheck& check) {
  for (size_t i = 1; i < check.splits.size(); ++i) {
    compare(check.splits[0], check.splits[i], check);
    compare(check.splits[i], check.splits[0], check);
  }
}

/// Training wants two; a folder that is one set by itself is looked at as such.
void check_splits(ImageCheck& check) {
  const auto& splits = check.found.splits;
  if (splits.front().name.empty()) return;
  if (splits.front().name != "train") {
    check.problems.push_back({"train", "the folder is missing: there is nothing to train on"});
  } else if (splits.size() == 1) {
    check.problems.push_back(
        {"test", "neither this folder nor val or valid is there: there is nothing to validate on"});
  }
}

}  // namespace

ImageCheck check_images(const std::filesystem::path& folder, const SummaryOptions& options) {
  ImageCheck check{.found = find_images(folder), .splits = {}, .problems = {}, .passed_over = {}};
  for (const auto& split : check.found.splits) {
    try {
      check.splits.push_back({split.name, summary_of(check.found, split, options)});
    } catch (const Error& error) {
      check.problems.push_back({named_split(split.name), error.what()});
      continue;
    }
    check_split(check.splits.back(), check);
    if (check.found.layout == ImageLayout::Cifar10) check_cifar(check.splits.back(), check);
    if (check.found.layout == ImageLayout::Folder) {
      for (const auto& name : passed_over_in(split.folder)) {
        check.passed_over.push_back(path_within(split.name, name));
      }
    }
  }
  check_classes(check);
  check_splits(check);
  return check;
}

}  // namespace deq::lab
