#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "deq/models/explicit/stem.h"

namespace deq::models {

/// What happens to the input in the last branch of an inception module.
enum class InceptionPool {
  Average,  ///< a mean over 3×3, then a projection
  Max,      ///< a maximum over 3×3, then a projection
  Halving,  ///< a maximum of stride 2, as it is: the module halves height and width
};

/// The output channels of a module's convolutions: a row of the publication's table.
struct InceptionModule {
  int64_t single = 0;          ///< of the 1×1 branch ≥ 1; 0 if the module halves
  int64_t reduced = 1;         ///< of the 1×1 convolution before the 3×3 one ≥ 1
  int64_t triple = 1;          ///< of the 3×3 convolution ≥ 1
  int64_t double_reduced = 1;  ///< of the 1×1 convolution before two of 3×3 ≥ 1
  int64_t double_triple = 1;   ///< of each of these two ≥ 1
  int64_t projected = 0;  ///< of the projection behind the pooling ≥ 1; 0 if the module halves
  InceptionPool pool = InceptionPool::Halving;
};

/// Modules 3a to 5b of the publication.
std::vector<InceptionModule> inception_v2_modules();

struct InceptionOptions {
  int64_t stem_channels = 64;  ///< of the first convolution, and of the 1×1 one that follows ≥ 1
  int64_t stem_outputs = 192;  ///< channels that the first module sees ≥ 1
  std::vector<InceptionModule> modules = inception_v2_modules();  ///< at least one
  Stem stem = Stem::Cifar;
  int64_t classes = 10;  ///< classes ≥ 1
};

InceptionOptions inception_v2(Stem stem = Stem::Cifar, int64_t classes = 10);

/// Inception with batch normalisation (Ioffe and Szegedy, 2015), by the table of its Figure 5. As
/// there, the first convolution for images of ImageNet is a separable one: 8 filters for each
/// colour, then a 1×1 convolution. Small images are not pooled by the stem: of 32×32 the modules
/// see 32×32, 16×16 and 8×8, where they see 28×28, 14×14 and 7×7 of 224×224.
class InceptionImpl : public torch::nn::Module {
 public:
  explicit InceptionImpl(const InceptionOptions& options = {},
                         const std::optional<at::Generator>& generator = {});

  /// What the last module makes of images [B, 3, H, W].
  torch::Tensor features(const torch::Tensor& images);
  /// Logits [B, classes] of images [B, 3, H, W].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Sequential features_{nullptr};
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(Inception);

}  // namespace deq::models
