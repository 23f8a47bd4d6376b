#include "deq/lab/data/images/image_check.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deq/core/error.h"
#include "deq/lab/data/images/cifar.h"
#include "deq/lab/data/images/image_folder.h"
#include "deq/lab/data/images/mask_decode.h"
#include "deq/lab/data/images/mask_folder.h"
#include "deq/lab/data/images/packed_images.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab {
namespace {

std::string path_within(const std::string& split, const std::string& rest) {
  return split.empty() ? rest : split + "/" + rest;
}

std::string named_split(const std::string& split) {
  return split.empty() ? "the folder" : split + "/";
}

/// The images of a folder with masks: they have no class.
class ImagesOfMasks final : public ImageSet {
 public:
  explicit ImagesOfMasks(std::vector<MaskedFiles> files) : ImageSet({}), files_(std::move(files)) {}

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t index) const override {
    return "images/" + path(index).filename().string();
  }
  std::string encoded(int64_t index) const override { return read_file(path(index)); }
  int64_t encoded_bytes(int64_t index) const override {
    std::error_code code;
    const auto bytes = std::filesystem::file_size(path(index), code);
    return code ? 0 : static_cast<int64_t>(bytes);
  }
  std::string describe(int64_t index) const override { return path(index).string(); }

 private:
  const std::filesystem::path& path(int64_t index) const {
    return files_[static_cast<size_t>(index)].image;
  }

  std::vector<MaskedFiles> files_;
  std::vector<std::string> classes_{"images"};
};

ImageSummary summary_with_masks(const ImageSplit& split, const SummaryOptions& options) {
  auto summary = summarise(ImagesOfMasks(masked_files(split.folder)), options);
  summary.classes.clear();
  return summary;
}

ImageSummary summary_of(const FoundImages& found, const ImageSplit& split,
                        const SummaryOptions& options) {
  switch (found.layout) {
    case ImageLayout::Folder:
      return summarise(ImageFolder(split.folder, {}, EmptyClass::Keep), options);
    case ImageLayout::Packed:
      return summarise(PackedImages(split.folder), options);
    case ImageLayout::Masks:
      return summary_with_masks(split, options);
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

/// Why this image cannot be trained on; empty where it can, or where the image itself is damaged.
/// The numbers of classes are the configuration's: here any will do.
std::string fault_of_mask(const MaskedFiles& files) {
  ImageSize size;
  try {
    size = image_size(read_file(files.image));
  } catch (const Error&) {
    return "";
  }
  try {
    read_mask(files.mask, size, kIgnoredLabel);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_masks(const ImageSplit& split, ImageCheck& check) {
  const auto files = masked_files(split.folder);
  std::vector<std::string> faults(files.size());
  at::parallel_for(0, std::ssize(files), /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      faults[i] = fault_of_mask(files[i]);
    }
  });
  for (size_t i = 0; i < files.size(); ++i) {
    if (faults[i].empty()) continue;
    check.problems.push_back(
        {path_within(split.name, "images/" + files[i].image.filename().string()), faults[i]});
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
    // Not where only some of the images are looked at.
    if (check.found.layout == ImageLayout::Masks && !options.max_images) check_masks(split, check);
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
