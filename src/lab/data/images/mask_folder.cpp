#include "deq/lab/data/images/mask_folder.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/image_decode.h"
#include "deq/lab/data/images/mask_decode.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

std::string lower_extension(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return extension;
}

/// Files with one of these extensions, in the order of their names; hidden ones never.
std::vector<fs::path> files_in(const fs::path& folder, const std::set<std::string>& extensions) {
  std::error_code code;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, code); !code && entry != fs::directory_iterator();
       entry.increment(code)) {
    const auto& path = entry->path();
    if (!path.filename().string().starts_with('.') && extensions.contains(lower_extension(path))) {
      files.push_back(path);
    }
  }
  require<UsageError>(!code, "cannot list the folder {}: {}", folder.string(), code.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

torch::Tensor read_mask(const fs::path& path, const ImageSize& size, int64_t classes) {
  torch::Tensor mask;
  try {
    mask = decode_mask(read_file(path));
  } catch (const Error& error) {
    throw Error(fmt::format("its mask {} cannot be read: {}", path.string(), error.what()));
  }
  const auto* first = mask.const_data_ptr<uint8_t>();
  const auto* last = first + mask.numel();
  const auto* wrong = std::find_if(
      first, last, [classes](uint8_t label) { return label >= classes && label != kIgnoredLabel; });
  require(
      wrong == last,
      "its mask {} has a pixel of class {}, must be below {}, or {} for pixels that do not count",
      path.string(), wrong == last ? 0 : int{*wrong}, classes, kIgnoredLabel);
  require(mask.size(0) == size.height && mask.size(1) == size.width,
          "its mask {} is {} × {}, must be {} × {} as the image", path.string(), mask.size(1),
          mask.size(0), size.width, size.height);
  return mask;
}

std::vector<MaskedFiles> masked_files(const fs::path& root) {
  const auto images = files_in(root / "images", {".jpg", ".jpeg", ".png"});
  require<UsageError>(!images.empty(),
                      "the folder {} holds no image, must hold some .jpg, .jpeg or .png",
                      (root / "images").string());
  std::vector<MaskedFiles> files;
  std::map<std::string, fs::path> seen;
  for (const auto& image : images) {
    const auto stem = image.stem().string();
    const auto [same, first] = seen.emplace(stem, image);
    require<UsageError>(first, "{} and {} would have the same mask, must have different names",
                        same->second.string(), image.string());
    files.push_back({image, root / "masks" / (stem + ".png")});
  }
  return files;
}

MaskFolder::MaskFolder(const fs::path& root, int64_t classes, const MaskTransform& transform)
    : classes_(classes), transform_((validate(transform), transform)) {
  require(classes >= 1 && classes <= kIgnoredLabel, "masks: classes = {}, must be in [1, {}]",
          classes, kIgnoredLabel);
  pairs_ = masked_files(root);
  for (const auto& [image, mask] : pairs_) {
    std::error_code ignored;
    require<UsageError>(fs::is_regular_file(mask, ignored), "{} has no mask: there is no file {}",
                        image.string(), mask.string());
  }
}

MaskedImage MaskFolder::decoded(int64_t index) const {
  const auto& files = pair(index);
  auto image = decode_image(read_file(files.image));
  auto mask = read_mask(files.mask, {.height = image.size(1), .width = image.size(2)}, classes_);
  return {.image = std::move(image), .mask = std::move(mask)};
}

std::vector<torch::Tensor> MaskFolder::get(int64_t index, uint64_t key) const {
  const auto sample = transform_masked(decoded(index), transform_, key);
  return {sample.image, sample.mask};
}

}  // namespace deq::lab
