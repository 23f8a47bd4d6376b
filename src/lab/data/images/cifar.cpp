#include "deq/lab/data/images/cifar.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kCifarPixelBytes = 3 * 32 * 32;  // red, green, blue; rows from the top
constexpr int64_t kCifarClasses = 10;

constexpr const char* kCifarClassesFile = "batches.meta.txt";

/// Every reason gets the file's name before it.
template <class Read>
auto read_named(const fs::path& path, const Read& read) {
  const auto bytes = read_file(path);
  try {
    return read(bytes);
  } catch (const Error& error) {
    throw Error(fmt::format("{} is no usable file of CIFAR-10: {}", path.string(), error.what()));
  }
}

/// One name per line.
std::vector<std::string> read_class_names(const fs::path& folder) {
  return read_named(folder / kCifarClassesFile, [](const std::string& text) {
    std::vector<std::string> classes;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) classes.push_back(line);
    }
    require(classes.size() == kCifarClasses, "it names {} classes, must be {}", classes.size(),
            kCifarClasses);
    return classes;
  });
}

/// Every image is one byte of label and its pixels.
void read_cifar_batch(std::string_view bytes, int64_t images, uint8_t* pixels, int64_t* labels) {
  const auto expected = images * (1 + kCifarPixelBytes);
  require(static_cast<int64_t>(bytes.size()) == expected, "it has {} bytes, must be {}",
          bytes.size(), expected);
  const auto* next = reinterpret_cast<const uint8_t*>(bytes.data());
  for (int64_t i = 0; i < images; ++i, next += 1 + kCifarPixelBytes) {
    labels[i] = *next;
    require(labels[i] < kCifarClasses, "the label of image {} is {}, must be < {}", i, labels[i],
            kCifarClasses);
    std::copy_n(next + 1, kCifarPixelBytes, pixels + i * kCifarPixelBytes);
  }
}

std::vector<std::string> batch_files(CifarPart part) {
  if (part == CifarPart::Test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

/// `folder`, or the folder in it that its archive makes: where there is such a file.
std::optional<fs::path> folder_with(const fs::path& folder, const char* archived,
                                    const char* file) {
  for (const auto& candidate : {folder, folder / archived}) {
    if (fs::exists(candidate / file)) return candidate;
  }
  return std::nullopt;
}

std::optional<fs::path> find_cifar_files(const fs::path& folder) {
  return folder_with(folder, "cifar-10-batches-bin", kCifarClassesFile);
}

fs::path find_or_refuse(const fs::path& folder) {
  const auto found = find_cifar_files(folder);
  if (found) return *found;
  require<UsageError>(!holds_python_cifar10(folder), "{}{}", folder.string(),
                      kPythonCifar10IsNotRead);
  throw UsageError(fmt::format("{} holds no CIFAR-10: there is no {} (the binary version)",
                               folder.string(), kCifarClassesFile));
}

}  // namespace

bool holds_cifar10(const fs::path& folder) {
  return find_cifar_files(folder).has_value();
}

bool holds_python_cifar10(const fs::path& folder) {
  return folder_with(folder, "cifar-10-batches-py", "batches.meta").has_value();
}

ImageTensors read_cifar10(const fs::path& folder, CifarPart part, int64_t images_per_file) {
  require(images_per_file >= 1, "cifar: images_per_file = {}, must be ≥ 1", images_per_file);
  const auto found = find_or_refuse(folder);
  const auto files = batch_files(part);
  const auto images = static_cast<int64_t>(files.size()) * images_per_file;
  ImageTensors set{.images = torch::empty({images, 3, 32, 32}, torch::kUInt8),
                   .labels = torch::empty({images}, torch::kInt64),
                   .classes = read_class_names(found)};
  auto* pixels = set.images.data_ptr<uint8_t>();
  auto* labels = set.labels.data_ptr<int64_t>();
  for (const auto& file : files) {
    read_named(found / file, [&](std::string_view bytes) {
      read_cifar_batch(bytes, images_per_file, pixels, labels);
    });
    pixels += images_per_file * kCifarPixelBytes;
    labels += images_per_file;
  }
  return set;
}

std::vector<std::string> cifar10_classes(const fs::path& folder) {
  return read_class_names(find_or_refuse(folder));
}

}  // namespace deq::lab
