#pragma once

#include "deq/models/mdeq/options.h"
#include "lab/config/description.h"

namespace deq::lab::config {

/// What every multiscale DEQ has, whatever its head.
template <class Visitor>
void describe_mdeq_trunk(Visitor& v, models::MdeqOptions& model) {
  v.whole_numbers("channels", model.channels, at_least(1),
                  "Of each scale, finest first; multiples of groups.");
  v.whole_numbers("blocks", model.blocks, at_least(1),
                  "Residual blocks of each scale; empty: one each.");
  v.whole_numbers("big_kernels", model.big_kernels, at_least(0),
                  "How many of a block's two convolutions are 5×5, for each scale; empty: none.");
  v.number("expansion", model.expansion, at_least(1),
           "A block's inner channels over its outer ones.");
  v.number("groups", model.groups, at_least(2), "Groups of the group norms.");
  v.number("dropout", model.dropout, from_to_below(0, 1),
           "How likely a channel is to be dropped for a whole solve.");
  v.flag("weight_norm", model.weight_norm,
         "Whether the weights of blocks and fusion are normalised.");
  v.flag("block_norm_affine", model.block_norm_affine,
         "Whether the group norms of the blocks have parameters.");
  v.flag("fuse_norm_affine", model.fuse_norm_affine, "The same for those of the fusion.");
  v.flag("post_norm_affine", model.post_norm_affine, "The same for those after the fusion.");
  v.flag("predicted_start", model.predicted_start,
         "Whether solves begin at what small convolutions make of the injection, which "
         "train.start_penalty trains, not at zero.");
  v.number("downsample_times", model.downsample_times, between(0, 16),
           "Halvings of the image before the finest scale.");
}

}  // namespace deq::lab::config
