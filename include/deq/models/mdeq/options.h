#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deq::models {

/// A multiscale DEQ for images (Bai, Koltun and Kolter 2020). Scale i has half the height and width
/// of scale i − 1. The defaults are the authors' tiny model for CIFAR-10.
struct MdeqOptions {
  int64_t image_channels = 3;             ///< ≥ 1
  std::vector<int64_t> channels{24, 24};  ///< of each scale, finest first; multiples of `groups`
  std::vector<int64_t> blocks{};          ///< residual blocks of each scale, ≥ 1; empty: one
  std::vector<int64_t> big_kernels{};  ///< 5×5 ones among a block's two convolutions; empty: none
  int64_t expansion = 5;               ///< a block's inner channels over its outer ones, ≥ 1
  int64_t groups = 8;                  ///< of the group norms, ≥ 2; half as many after the fusion
  double dropout = 0.25;               ///< of whole channels, 0 ≤ dropout < 1
  bool weight_norm = true;             ///< in the blocks and after the fusion
  bool block_norm_affine = true;
  bool fuse_norm_affine = true;
  bool post_norm_affine = false;
  bool predicted_start = false;  ///< solves begin at what small convolutions make of the injection
  int64_t downsample_times = 0;  ///< halvings of the image before scale 0, ≥ 0
  std::vector<int64_t> head_channels{8, 16};  ///< a quarter of the head's width, each scale; ≥ 1
  int64_t final_channels = 200;               ///< features that are classified, ≥ 1
  int64_t classes = 10;                       ///< ≥ 1

  size_t scales() const { return channels.size(); }
};

/// Throws Error naming the field, its value and the constraint.
void validate(const MdeqOptions& options);

/// The configurations the authors released, by name: cifar-tiny, cifar-large, cifar-large-reg,
/// imagenet-small, imagenet-small-reg, imagenet-large, imagenet-large-reg, imagenet-xl. "reg" are
/// those trained with Jacobian regularisation (Bai, Koltun and Kolter 2021). Error for another
/// name.
MdeqOptions mdeq_preset(std::string_view name);
std::vector<std::string> mdeq_preset_names();

}  // namespace deq::models
