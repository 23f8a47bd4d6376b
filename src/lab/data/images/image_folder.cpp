#include "deq/lab/data/images/image_folder.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

bool has_image_name(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

/// Names in `folder` that `wanted` accepts, sorted; hidden ones never.
template <class Wanted>
std::vector<std::string> names_in(const fs::path& folder, const Wanted& wanted) {
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, code); !code && entry != fs::directory_iterator();
       entry.increment(code)) {
    auto name = entry->path().filename().string();
    if (!name.starts_with('.') && wanted(*entry)) names.push_back(std::move(name));
  }
  require<UsageError>(!code, "cannot list the folder {}: {}", folder.string(), code.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

std::vector<std::string> image_names(const fs::path& folder) {
  return names_in(folder, [](const auto& entry) { return has_image_name(entry.path()); });
}

}  // namespace

std::vector<std::string> class_folders(const fs::path& root) {
  return names_in(root, is_folder);
}

bool holds_images(const fs::path& folder) {
  return !image_names(folder).empty();
}

std::vector<std::string> passed_over_in(const fs::path& root) {
  auto names = names_in(root, [](const auto& entry) { return !is_folder(entry); });
  for (const auto& label : class_folders(root)) {
    for (const auto& name :
         names_in(root / label, [](const auto& entry) { return !has_image_name(entry.path()); })) {
      names.push_back((fs::path(label) / name).string());
    }
  }
  return names;
}

ImageFolder::ImageFolder(fs::path root, const ImageTransform& transform, EmptyClass empty_class)
    : ImageSet(transform), root_(std::move(root)), classes_(class_folders(root_)) {
  require<UsageError>(!classes_.empty(), "{} holds no folders, must hold one for each class",
                      root_.string());
  for (size_t label = 0; label < classes_.size(); ++label) {
    const auto folder = root_ / classes_[label];
    auto names = image_names(folder);
    require<UsageError>(!names.empty() || empty_class == EmptyClass::Keep,
                        "the class folder {} holds no image, must hold some .jpg, .jpeg or .png",
                        folder.string());
    for (auto& name : names) files_.push_back({static_cast<int64_t>(label), std::move(name)});
  }
}

std::string ImageFolder::name(int64_t index) const {
  return classes_[static_cast<size_t>(file(index).label)] + "/" + file(index).name;
}

std::string ImageFolder::encoded(int64_t index) const {
  return read_file(describe(index));
}

int64_t ImageFolder::encoded_bytes(int64_t index) const {
  std::error_code code;
  const auto size = fs::file_size(describe(index), code);
  return code ? 0 : static_cast<int64_t>(size);
}

std::string ImageFolder::describe(int64_t index) const {
  return (root_ / name(index)).string();
}

}  // namespace deq::lab
