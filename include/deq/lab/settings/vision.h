#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "deq/lab/data/images/image_transform.h"
#include "deq/lab/settings/recipe.h"
#include "deq/models/explicit/stem.h"
#include "deq/models/mdeq/options.h"
#include "deq/models/monotone/options.h"

namespace deq::lab {

/// How a set of images lies on the disk.
enum class ImageFormat {
  Cifar10,  ///< CIFAR-10's own files, the binary version
  Folder,   ///< train/<class>/*.jpg|png, and test/ or val/ likewise
  Packed,   ///< the same, packed into a few large files: train/ and test/ or val/
};

/// What happens to an image before a model sees it.
enum class ImagePreparation {
  Cifar10,   ///< crops with a margin; the whole set is kept in memory, the GPU's where there is one
  ImageNet,  ///< crops of random size, resized; images are read from the disk as they are needed
};

/// [data].
struct ImageData {
  ImageFormat format = ImageFormat::Cifar10;
  std::string path;
  ImagePreparation transform = ImagePreparation::Cifar10;
  int64_t image_size = 32;                 ///< ≥ 1; what the model is given
  std::optional<int64_t> train_samples{};  ///< ≥ 1; only this many, drawn once
  std::optional<int64_t> valid_samples{};
  bool augment = true;
  Margin margin = Margin::Black;  ///< with crops that have one
  int64_t erased = 0;  ///< ≥ 0; side of a square of each training image, where it is augmented
};

enum class ResNetDepth { Layers18, Layers50, Layers101 };
enum class DenseNetDepth { Layers121, Layers264 };

struct ResNetModel {
  ResNetDepth depth = ResNetDepth::Layers18;
  models::Stem stem = models::Stem::Cifar;
  int64_t classes = 10;
};

struct DenseNetModel {
  DenseNetDepth depth = DenseNetDepth::Layers121;
  int64_t growth = 32;
  models::Stem stem = models::Stem::Cifar;
  int64_t classes = 10;
};

/// Inception-V2.
struct InceptionModel {
  models::Stem stem = models::Stem::Cifar;
  int64_t classes = 10;
};

/// [model].
using ImageModel = std::variant<models::MdeqOptions, ResNetModel, DenseNetModel,
                                models::MonotoneOptions, InceptionModel>;

/// [loss].
struct ImageLossConfig {
  double label_smoothing = 0;  ///< 0 ≤ label_smoothing < 1
};

/// Image classification by a multiscale DEQ, a monotone network or an explicit one. The defaults
/// are the paper's for CIFAR-10 where it names them, with the authors' tiny model.
struct VisionConfig : Recipe {
  VisionConfig();

  ImageData data{};
  ImageModel model = models::MdeqOptions{};
  ImageLossConfig loss{};
};

}  // namespace deq::lab
