#include "deq/data/image_layout.h"

#include <algorithm>
#include <optional>

#include "data/packed_index.h"
#include "deq/core/error.h"
#include "deq/data/cifar.h"
#include "deq/data/image_folder.h"

namespace deq {
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

std::optional<FoundImages> find_cifar(const fs::path& folder) {
  const auto version = cifar10_version(folder);
  if (!version) return std::nullopt;
  const auto layout =
      *version == CifarVersion::Binary ? ImageLayout::CifarBinary : ImageLayout::CifarPython;
  return FoundImages{layout, folder, {{"train", folder}, {"test", folder}}};
}

}  // namespace

std::string_view description(ImageLayout layout) {
  switch (layout) {
    case ImageLayout::CifarBinary:
      return "CIFAR-10, binary version";
    case ImageLayout::CifarPython:
      return "CIFAR-10, Python version";
    case ImageLayout::Packed:
      return "packed images";
    case ImageLayout::Folder:
      break;
  }
  return "image folder";
}

std::string_view format_key(ImageLayout layout) {
  if (layout == ImageLayout::Folder) return "folder";
  return layout == ImageLayout::Packed ? "packed" : "cifar10";
}

FoundImages find_images(const fs::path& folder) {
  require<UsageError>(is_folder(folder), folder.string(), " is no folder");
  if (auto cifar = find_cifar(folder)) return *cifar;
  const ImageSplit whole{"", folder};
  if (is_packed(whole)) return {ImageLayout::Packed, folder, {whole}};
  const auto splits = splits_in(folder);
  if (!splits.empty()) {
    const bool packed = std::any_of(splits.begin(), splits.end(), is_packed);
    return {packed ? ImageLayout::Packed : ImageLayout::Folder, folder, splits};
  }
  for (const auto& name : class_folders(folder)) {
    if (holds_images(folder / name)) return {ImageLayout::Folder, folder, {whole}};
  }
  throw UsageError(c10::str(
      folder.string(),
      " holds no images: no folder train, test, val or valid, no folders of classes with .jpg, "
      ".jpeg or .png files, no packed set (index.safetensors) and no CIFAR-10 (batches.meta)"));
}

}  // namespace deq
