#pragma once

#include "deq/lab/settings/language.h"
#include "lab/config/description.h"
#include "lab/settings/describe_recipe.h"
#include "lab/settings/experiment_names.h"

namespace deq::lab::config {

inline constexpr Choice<CorpusSplit> kTextSplits[] = {{"valid", CorpusSplit::Valid},
                                                      {"test", CorpusSplit::Test}};

inline constexpr Choice<models::MemoryGates> kMemoryGates[] = {
    {"none", models::MemoryGates::None},
    {"unit", models::MemoryGates::Unit},
    {"memory", models::MemoryGates::Memory}};

template <>
struct Alternatives<LanguageModel> {
  static std::string_view name(const LanguageModel& model) {
    constexpr std::string_view kNames[] = {"deq-transformer", "transformer-xl",    "looped",
                                           "awd-qrnn",        "relational-memory", "gpt2"};
    static_assert(std::size(kNames) == std::variant_size_v<LanguageModel>);
    return kNames[model.index()];
  }
  static void carry_over(const LanguageModel&, LanguageModel&) {}
};

template <class Visitor>
void describe(Visitor& v, TextData& data) {
  v.text("path", data.path,
         "The folder that holds train.txt, valid.txt and test.txt, or WikiText's own files.",
         Presence::Required);
  v.number("segment", data.segment, at_least(1), "Words of each stream that a step reads.");
  v.number("memory", data.memory, at_least(0), "Words before a segment that are remembered.");
  v.number("eval_segment", data.eval_segment, at_least(1), "The segment outside of training.");
  v.number("eval_memory", data.eval_memory, at_least(0), "The memory outside of training.");
  v.number("eval_streams", data.eval_streams, at_least(1),
           "Streams that the text is read in outside of training.");
  v.choice("eval_split", data.eval_split, kTextSplits, "The text that is evaluated on.");
  v.optional_number("eval_words", data.eval_words, at_least(2),
                    "Evaluate only on this many words, the first.");
  v.number("min_count", data.min_count, at_least(1),
           "Rarer words of the training text count as unknown.");
  v.optional_number("max_words", data.max_words, at_least(2),
                    "The size of the vocabulary at most; the rarest words count as unknown.");
}

/// What all models have: how words are embedded and predicted.
template <class Visitor, class Model>
void describe_words(Visitor& v, Model& model) {
  v.whole_numbers(
      "cutoffs", model.cutoffs, at_least(1),
      "First word of every cluster except the first; empty: chosen for the vocabulary.");
  v.number("div_val", model.div_val, at_least(1),
           "How much narrower the vectors of each further cluster are.");
  v.number("d_embed", model.d_embed, at_least(1), "Width of the first cluster's vectors.");
  v.flag("tie_weights", model.tie_weights,
         "Whether words are predicted with the vectors that embed them.");
}

/// What all Transformers have.
template <class Visitor, class Model>
void describe_transformer(Visitor& v, Model& model) {
  describe_words(v, model);
  v.number("d_model", model.d_model, at_least(2), "Features of a position; even.");
  v.number("heads", model.heads, at_least(1), "Heads of the attention.");
  v.number("d_inner", model.d_inner, at_least(1), "Features inside the feed-forward part.");
  v.number("dropout", model.dropout, from_to_below(0, 1), "How likely a feature is to be dropped.");
  v.number("attention_dropout", model.attention_dropout, from_to_below(0, 1),
           "How likely one position is not to see another.");
  v.number("init_std", model.init_std, at_least(0), "Standard deviation of the weights at first.");
}

/// Those that see positions by their distance.
template <class Visitor, class Model>
void describe_relative_transformer(Visitor& v, Model& model) {
  describe_transformer(v, model);
  v.number("d_head", model.d_head, at_least(1), "Features of a head.");
  v.flag("pre_ln", model.pre_ln, "Whether layer norms come before the two parts, not after.");
}

template <class Visitor>
void describe_own(Visitor& v, DeqTransformerModel& model) {
  describe_relative_transformer(v, model);
  v.number("horizon", model.horizon, at_least(1), "Positions that one sees, itself among them.");
  v.flag("predicted_start", model.predicted_start,
         "Whether solves begin at what two small layers make of the injection, which "
         "train.start_penalty trains, not at zero.");
  v.flag("weight_norm", model.weight_norm, "Whether the weights of the layer are normalised.");
  v.flag("normalised_residual", model.normalised_residual,
         "With pre_ln: whether the feed-forward part adds to its normalised input, as the authors' "
         "code does.");
  v.flag("default_init_when_normalised", model.default_init_when_normalised,
         "Whether normalised weights start as torch's layers do, as in the authors' code, not with "
         "init_std.");
  v.flag("output_drops_positions", model.output_drops_positions,
         "Whether the last dropout drops whole positions, as the authors' code does.");
}

template <class Visitor>
void describe_own(Visitor& v, TransformerXlModel& model) {
  describe_relative_transformer(v, model);
  v.number("layers", model.layers, at_least(1), "Layers.");
  v.number("horizon", model.horizon, at_least(0),
           "Positions that one sees, itself among them; 0: all.");
  v.number("clamp_distance", model.clamp_distance, at_least(0),
           "Farther positions count as this far; 0: as far as they are.");
}

template <class Visitor>
void describe_own(Visitor& v, LoopedModel& model) {
  v.number("prelude", model.prelude, at_least(0), "Layers before the loop.");
  v.number("core", model.core, at_least(1), "Layers of the loop.");
  v.number("coda", model.coda, at_least(0), "Layers after the loop.");
  describe_relative_transformer(v, model);
  v.number("horizon", model.horizon, at_least(0),
           "Positions that one sees, itself among them; 0: all.");
  v.number("start_std", model.start_std, at_least(0),
           "Standard deviation of the numbers that the loop starts from.");
  v.numbers("exits", model.exits, above(0),
            "Evaluations also try these tolerances: a word leaves the loop when its own state "
            "changes by no more, relatively.");
}

template <class Visitor>
void describe_own(Visitor& v, QrnnModel& model) {
  describe_words(v, model);
  v.number("layers", model.layers, at_least(1), "Layers; the last is as wide as a word's vector.");
  v.number("d_hidden", model.d_hidden, at_least(1), "Features of all layers but the last.");
  v.number("window", model.window, at_least(1),
           "Words that the first layer sees at once: the present one and those before it.");
  v.number("embedding_dropout", model.embedding_dropout, from_to_below(0, 1),
           "How likely a word is to be dropped, wherever it stands.");
  v.number("input_dropout", model.input_dropout, from_to_below(0, 1),
           "How likely a feature of the first layer's input is to be dropped, at all positions.");
  v.number("hidden_dropout", model.hidden_dropout, from_to_below(0, 1), "The same between layers.");
  v.number("output_dropout", model.output_dropout, from_to_below(0, 1),
           "The same after the last layer.");
  v.number("weight_dropout", model.weight_dropout, from_to_below(0, 1),
           "How likely a weight of a layer is to be dropped.");
  v.number(
      "activation_penalty", model.activation_penalty, at_least(0),
      "Adds so many times the mean square of the last layer's features to the training's loss.");
  v.number("slowness_penalty", model.slowness_penalty, at_least(0),
           "Adds so many times the mean square of their changes from word to word.");
  v.number("init_std", model.init_std, at_least(0),
           "Standard deviation of the words' vectors at first.");
}

template <class Visitor>
void describe_own(Visitor& v, RelationalMemoryModel& model) {
  describe_words(v, model);
  v.number("d_model", model.d_model, at_least(1),
           "Features of a word that is read, and of what one is predicted from.");
  v.number("slots", model.slots, at_least(1), "Rows of the memory.");
  v.number("heads", model.heads, at_least(1), "Heads of the attention.");
  v.number("head_size", model.head_size, at_least(1),
           "Features of a head; a slot has heads · head_size.");
  v.number("blocks", model.blocks, at_least(1),
           "How many times the slots attend to each other and to one word.");
  v.number("mlp_layers", model.mlp_layers, at_least(1), "Layers of the MLP after the attention.");
  v.choice("gates", model.gates, kMemoryGates,
           "What decides between old and new memory: one pair of gates for every feature (unit), "
           "for every slot (memory), or none.");
  v.number("embedding_dropout", model.embedding_dropout, from_to_below(0, 1),
           "How likely a feature of a word that is read is to be dropped.");
  v.number(
      "output_dropout", model.output_dropout, from_to_below(0, 1),
      "How likely a feature of the memory is to be dropped where words are predicted from it.");
  v.number("init_std", model.init_std, at_least(0),
           "Standard deviation of the words' vectors at first.");
}

template <class Visitor>
void describe_own(Visitor& v, Gpt2Model& model) {
  describe_transformer(v, model);
  v.number("layers", model.layers, at_least(1), "Layers.");
  v.number("positions", model.positions, at_least(1),
           "Words that are read at once at most, those that are remembered among them.");
}

template <class Visitor>
void describe(Visitor& v, LanguageModel& model) {
  v.select("name", model, "The network.");
  v.alternatives("name", model, [](auto& inner, auto& chosen) { describe_own(inner, chosen); });
}

template <class Visitor>
void describe(Visitor& v, LanguageConfig& config) {
  describe_top(v, config, kLanguage);
  v.table("data", config.data, "The text.");
  v.table("model", config.model, "The network.");
  describe_tables(v, config);
}

}  // namespace deq::lab::config
