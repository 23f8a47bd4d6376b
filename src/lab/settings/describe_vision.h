#pragma once

#include "deq/lab/settings/vision.h"
#include "lab/config/description.h"
#include "lab/settings/describe_mdeq.h"
#include "lab/settings/describe_recipe.h"
#include "lab/settings/experiment_names.h"

namespace deq::lab::config {

inline constexpr Choice<ImageFormat> kImageFormats[] = {{"cifar10", ImageFormat::Cifar10},
                                                        {"folder", ImageFormat::Folder},
                                                        {"packed", ImageFormat::Packed}};
inline constexpr Choice<ImagePreparation> kImagePreparations[] = {
    {"cifar10", ImagePreparation::Cifar10}, {"imagenet", ImagePreparation::ImageNet}};
inline constexpr Choice<models::Stem> kStems[] = {{"cifar", models::Stem::Cifar},
                                                  {"imagenet", models::Stem::ImageNet}};
inline constexpr Choice<ResNetDepth> kResNetDepths[] = {
    {"18", ResNetDepth::Layers18}, {"50", ResNetDepth::Layers50}, {"101", ResNetDepth::Layers101}};
inline constexpr Choice<DenseNetDepth> kDenseNetDepths[] = {{"121", DenseNetDepth::Layers121},
                                                            {"264", DenseNetDepth::Layers264}};
inline constexpr Choice<Margin> kMargins[] = {{"black", Margin::Black}, {"mean", Margin::Mean}};
inline constexpr Choice<models::Splitting> kSplittings[] = {
    {"peaceman-rachford", models::Splitting::PeacemanRachford},
    {"forward-backward", models::Splitting::ForwardBackward}};

template <>
struct Alternatives<ImageModel> {
  static std::string_view name(const ImageModel& model) {
    constexpr std::string_view kNames[] = {"mdeq", "resnet", "densenet", "monotone", "inception"};
    static_assert(std::size(kNames) == std::variant_size_v<ImageModel>);
    return kNames[model.index()];
  }
  static void carry_over(const ImageModel&, ImageModel&) {}
};

template <class Visitor>
void describe(Visitor& v, ImageData& data) {
  v.choice(
      "format", data.format, kImageFormats,
      "CIFAR-10's own files; folders train/<class>/ and test/<class>/ (or val/) of JPEG and PNG "
      "files; or such folders packed.");
  v.text("path", data.path, "The folder that holds them.", Presence::Required);
  v.choice("transform", data.transform, kImagePreparations,
           "Crops with a margin, the set in memory; or crops of random size, read from the disk.");
  v.number("image_size", data.image_size, at_least(1), "Height and width that the model is given.");
  v.optional_number("train_samples", data.train_samples, at_least(1),
                    "Train only on this many, drawn once by the seed.");
  v.optional_number("valid_samples", data.valid_samples, at_least(1),
                    "Validate only on this many, drawn once by the seed.");
  v.flag("augment", data.augment, "Whether training images are cropped and flipped at random.");
  v.choice(
      "margin", data.margin, kMargins,
      "With transform cifar10: what lies around an image that a crop may leave. black is what the "
      "authors do; mean is the colour that becomes 0.");
  v.number("erased", data.erased, at_least(0),
           "Side of a square at random, in pixels, of each augmented image that becomes the mean "
           "colour; 0 erases nothing.");
}

template <class Visitor>
void describe_own(Visitor& v, models::MdeqOptions& model) {
  describe_mdeq_trunk(v, model);
  v.whole_numbers("head_channels", model.head_channels, at_least(1),
                  "A quarter of the head's width, for each scale.");
  v.number("final_channels", model.final_channels, at_least(1), "Features that are classified.");
  v.number("classes", model.classes, at_least(1), "As many as the data has.");
}

template <class Visitor>
void describe_own(Visitor& v, ResNetModel& model) {
  v.choice("depth", model.depth, kResNetDepths, "Layers.");
  v.choice("stem", model.stem, kStems, "How it begins: for small images or for those of ImageNet.");
  v.number("classes", model.classes, at_least(1), "As many as the data has.");
}

template <class Visitor>
void describe_own(Visitor& v, DenseNetModel& model) {
  v.choice("depth", model.depth, kDenseNetDepths, "Layers.");
  v.number("growth", model.growth, at_least(1), "Channels that a layer adds.");
  v.choice("stem", model.stem, kStems, "How it begins: for small images or for those of ImageNet.");
  v.number("classes", model.classes, at_least(1), "As many as the data has.");
}

template <class Visitor>
void describe_own(Visitor& v, InceptionModel& model) {
  v.choice("stem", model.stem, kStems, "How it begins: for small images or for those of ImageNet.");
  v.number("classes", model.classes, at_least(1), "As many as the data has.");
}

template <class Visitor>
void describe_own(Visitor& v, models::MonotoneOptions& model) {
  v.whole_numbers("channels", model.channels, at_least(1),
                  "Of each tier, finest first; every further tier halves the image.");
  v.number("strength", model.strength, above(0),
           "How strongly monotone the network is: m of W = (1 − m) I − AᵀA + B − Bᵀ.");
  v.choice("splitting", model.splitting, kSplittings, "The map whose fixed point is solved for.");
  v.number("alpha", model.alpha, above(0),
           "The splitting's step; forward-backward converges only if it is small.");
  v.number("image_size", model.image_size, at_least(2),
           "As data.image_size; a multiple of 2 to the power of the tiers less one.");
  v.number("classes", model.classes, at_least(1), "As many as the data has.");
}

template <class Visitor>
void describe(Visitor& v, ImageModel& model) {
  v.select("name", model, "The network.");
  v.alternatives("name", model, [](auto& inner, auto& chosen) { describe_own(inner, chosen); });
}

template <class Visitor>
void describe(Visitor& v, ImageLossConfig& loss) {
  v.number("label_smoothing", loss.label_smoothing, from_to_below(0, 1),
           "The share of a label's weight that goes to all classes alike; validation has none.");
}

template <class Visitor>
void describe(Visitor& v, VisionConfig& config) {
  describe_top(v, config, kVision);
  v.table("data", config.data, "The images.");
  v.table("model", config.model, "The network.");
  v.table("loss", config.loss, "What is minimised: the mean cross-entropy of the images.");
  describe_tables(v, config);
}

}  // namespace deq::lab::config
