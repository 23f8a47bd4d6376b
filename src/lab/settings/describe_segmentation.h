#pragma once

#include "deq/lab/settings/segmentation.h"
#include "lab/config/description.h"
#include "lab/settings/describe_mdeq.h"
#include "lab/settings/describe_recipe.h"
#include "lab/settings/experiment_names.h"

namespace deq::lab::config {

template <class Visitor>
void describe(Visitor& v, SegmentationData& data) {
  v.text("path", data.path,
         "The folder that holds train/images/ and train/masks/, and test/ (or val/) likewise.",
         Presence::Required);
  v.number("crop_height", data.crop_height, at_least(1),
           "Of the part of an image that is trained on.");
  v.number("crop_width", data.crop_width, at_least(1), "The same.");
  v.flag("augment", data.augment,
         "Whether training images are scaled, cropped and flipped at random; else their middle is "
         "cut out.");
  v.number("min_scale", data.min_scale, above(0), "The smallest random scale of a training image.");
  v.number("max_scale", data.max_scale, above(0), "The largest.");
  v.in_order("min_scale", data.min_scale, Relation::AtMost, "max_scale", data.max_scale);
  v.flag("valid_crop", data.valid_crop,
         "Whether validation looks at the middle of each image only, as large as the crop.");
  v.number("valid_batch_size", data.valid_batch_size, at_least(1),
           "Images that are validated at once, at most; several must be of one size.");
}

template <class Visitor>
void describe(Visitor& v, models::MdeqSegmenterOptions& model) {
  describe_mdeq_trunk(v, model.mdeq);
  v.number("final_kernel", model.final_kernel, between(1, 3),
           "1 or 3: the size of the convolution that gives the scores.");
  v.number("norm_momentum", model.norm_momentum, above_up_to(0, 1),
           "A batch's weight in the statistics of the batch norms.");
  v.number("classes", model.mdeq.classes, between(1, 255),
           "As many as the masks have; 255 in a mask stands for pixels that do not count.");
}

template <class Visitor>
void describe(Visitor& v, PixelLossConfig& loss) {
  v.numbers("class_weights", loss.class_weights, above(0),
            "How much the pixels of each class count; empty: all the same.");
}

template <class Visitor>
void describe(Visitor& v, SegmentationConfig& config) {
  describe_top(v, config, kSegmentation);
  v.table("data", config.data, "The images and their masks.");
  v.table("model", config.model, "The network, a multiscale DEQ.");
  v.table("loss", config.loss, "What is minimised: the mean cross-entropy of the pixels.");
  describe_tables(v, config);
}

}  // namespace deq::lab::config
