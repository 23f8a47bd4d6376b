#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "deq/data/image_tensors.h"

namespace deq {

enum class CifarPart { Training, Test };
enum class CifarVersion { Binary, Python };

/// Which version of CIFAR-10 lies in `folder`, if any.
std::optional<CifarVersion> cifar10_version(const std::filesystem::path& folder);

/// CIFAR-10 as it is published: the binary version (data_batch_1.bin … 5, test_batch.bin,
/// batches.meta.txt) or the Python version (data_batch_1 … 5, test_batch, batches.meta), in
/// `folder` or in its cifar-10-batches-bin or cifar-10-batches-py. uint8 [N, 3, 32, 32]; every file
/// must be there and hold `images_per_file` images. A folder without either version is a
/// UsageError.
ImageTensors read_cifar10(const std::filesystem::path& folder, CifarPart part,
                          int64_t images_per_file = 10000);

/// The names of the classes alone.
std::vector<std::string> cifar10_classes(const std::filesystem::path& folder);

}  // namespace deq
