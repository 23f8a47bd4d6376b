#include "deq/data/cifar.h"

#include "data/cifar_files.h"
#include "deq/io/atomic_file.h"

namespace deq {
namespace fs = std::filesystem;
namespace {

struct Version {
  CifarVersion version;
  const char* folder;
  const char* classes_file;
  const char* suffix;  // of the batches
  void (*read_batch)(std::string_view bytes, const cifar::Rows& rows);
  std::vector<std::string> (*read_classes)(std::string_view bytes);
};

constexpr Version kVersions[] = {
    {CifarVersion::Binary, "cifar-10-batches-bin", "batches.meta.txt", ".bin",
     cifar::read_binary_batch, cifar::read_binary_classes},
    {CifarVersion::Python, "cifar-10-batches-py", "batches.meta", "", cifar::read_python_batch,
     cifar::read_python_classes},
};

/// Every reason gets the file's name before it.
template <class Read>
auto read_named(const fs::path& path, const Read& read) {
  const auto bytes = read_file(path);
  try {
    return read(bytes);
  } catch (const Error& error) {
    throw Error(c10::str(path.string(), " is no usable file of CIFAR-10: ", error.what()));
  }
}

std::vector<std::string> batch_names(CifarPart part) {
  if (part == CifarPart::Test) return {"test_batch"};
  return {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
}

std::vector<std::string> read_classes(const Version& version, const fs::path& folder) {
  return read_named(folder / version.classes_file, [&](std::string_view bytes) {
    auto classes = version.read_classes(bytes);
    require(classes.size() == cifar::kClasses, "it names ", classes.size(), " classes, must be ",
            cifar::kClasses);
    return classes;
  });
}

ImageTensors read_version(const Version& version, const fs::path& folder, CifarPart part,
                          int64_t images_per_file) {
  ImageTensors set;
  set.classes = read_classes(version, folder);
  const auto names = batch_names(part);
  const auto images = static_cast<int64_t>(names.size()) * images_per_file;
  set.images = torch::empty({images, 3, 32, 32}, torch::kUInt8);
  set.labels = torch::empty({images}, torch::kInt64);
  auto* pixels = set.images.data_ptr<uint8_t>();
  auto* labels = set.labels.data_ptr<int64_t>();
  for (const auto& name : names) {
    const cifar::Rows rows{images_per_file, pixels, labels};
    read_named(folder / (name + version.suffix),
               [&](std::string_view bytes) { version.read_batch(bytes, rows); });
    pixels += images_per_file * cifar::kPixelBytes;
    labels += images_per_file;
  }
  return set;
}

struct Place {
  const Version& version;
  fs::path folder;
};

std::optional<Place> find(const fs::path& folder) {
  for (const auto& version : kVersions) {
    for (const auto& place : {folder, folder / version.folder}) {
      if (fs::exists(place / version.classes_file)) return Place{version, place};
    }
  }
  return std::nullopt;
}

Place find_or_refuse(const fs::path& folder) {
  auto place = find(folder);
  require<UsageError>(place.has_value(), folder.string(),
                      " holds no CIFAR-10: neither batches.meta.txt (the binary version) nor "
                      "batches.meta (the Python version)");
  return *place;
}

}  // namespace

std::optional<CifarVersion> cifar10_version(const fs::path& folder) {
  const auto place = find(folder);
  return place ? std::optional(place->version.version) : std::nullopt;
}

ImageTensors read_cifar10(const fs::path& folder, CifarPart part, int64_t images_per_file) {
  require(images_per_file >= 1, "cifar: images_per_file = ", images_per_file, ", must be ≥ 1");
  const auto [version, place] = find_or_refuse(folder);
  return read_version(version, place, part, images_per_file);
}

std::vector<std::string> cifar10_classes(const fs::path& folder) {
  const auto [version, place] = find_or_refuse(folder);
  return read_classes(version, place);
}

}  // namespace deq
