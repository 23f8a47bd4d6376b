#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/data/images/image_tensors.h"

namespace deq::lab {

enum class CifarPart { Training, Test };

/// CIFAR-10 as it is published, the binary version: data_batch_1.bin … 5, test_batch.bin and
/// batches.meta.txt in `folder` or in its cifar-10-batches-bin. uint8 [N, 3, 32, 32]; every file
/// must be there and hold `images_per_file` images. A folder without batches.meta.txt is a
/// UsageError.
ImageTensors read_cifar10(const std::filesystem::path& folder, CifarPart part,
                          int64_t images_per_file = 10000);

/// Only the names of the classes.
std::vector<std::string> cifar10_classes(const std::filesystem::path& folder);

/// Whether read_cifar10 finds its files in `folder`.
bool holds_cifar10(const std::filesystem::path& folder);

/// Whether `folder` holds the other version, pickles for Python, which is not read.
bool holds_python_cifar10(const std::filesystem::path& folder);

/// What is said of such a folder, after its name.
inline constexpr const char* kPythonCifar10IsNotRead =
    " holds the Python version of CIFAR-10, but only the binary version is read "
    "(cifar-10-binary.tar.gz)";

}  // namespace deq::lab
