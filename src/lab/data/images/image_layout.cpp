#include "deq/lab/data/images/image_layout.h"

#include <algorithm>
#include <optional>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/cifar.h"
#include "deq/lab/data/images/image_folder.h"
#include "lab/data/images/packed_index.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSplits[] = {"train", "test", "val", "valid"};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<ImageSplit> splits_in(const fs::path& folder) {
  std::vector<ImageSplit> splits;
  for (const char* name : kSplits) {
    if (is_folder(folder / name)) splits.push_back({name, folder / name});
  }
  return splits;
}

bool is_packed(const ImageSplit& split) {
  return is_there(packed_index_path(split.folder));
}

bool is_masked(const ImageSplit& split) {
  return class_folders(split.folder) == std::vector<std::string>{"images", "masks"};
}

ImageLayout layout_of(const std::vector<ImageSplit>& splits) {
  const auto any = [&splits](auto is) { return std::any_of(splits.begin(), splits.end(), is); };
  if (any(is_packed)) return ImageLayout::Packed;
  return any(is_masked) ? ImageLayout::Masks : ImageLayout::Folder;
}

std::optional<FoundImages> find_cifar(const fs::path& folder) {
  if (holds_cifar10(folder)) {
    return FoundImages{ImageLayout::Cifar10, folder, {{"train", folder}, {"test", folder}}};
  }
  require<UsageError>(!holds_python_cifar10(folder), "{}{}", folder.string(),
                      kPythonCifar10IsNotRead);
  return std::nullopt;
}

}  // namespace

std::string_view description(ImageLayout layout) {
  switch (layout) {
    case ImageLayout::Cifar10:
      return "CIFAR-10";
    case ImageLayout::Packed:
      return "packed images";
    case ImageLayout::Masks:
      return "images with masks";
    case ImageLayout::Folder:
      break;
  }
  return "image folder";
}

std::string_view format_key(ImageLayout layout) {
  if (layout == ImageLayout::Folder) return "folder";
  if (layout == ImageLayout::Masks) return "masks";
  return layout == ImageLayout::Packed ? "packed" : "cifar10";
}

FoundImages find_images(const fs::path& folder) {
  require<UsageError>(is_folder(folder), "{} is no folder", folder.string());
  if (auto cifar = find_cifar(folder)) return *cifar;
  const ImageSplit whole{"", folder};
  if (is_packed(whole)) return {ImageLayout::Packed, folder, {whole}};
  const auto splits = splits_in(folder);
  if (!splits.empty()) return {layout_of(splits), folder, splits};
  for (const auto& name : class_folders(folder)) {
    if (holds_images(folder / name)) return {layout_of({whole}), folder, {whole}};
  }
  throw UsageError(fmt::format(
      "{} holds no images: no folder train, test, val or valid, no folders of classes with .jpg, "
      ".jpeg or .png files, no packed set (index.safetensors) and no CIFAR-10 (batches.meta.txt)",
      folder.string()));
}

}  // namespace deq::lab
