#pragma once

#include <memory>
#include <optional>
#include <string>

#include "deq/core/precision.h"
#include "deq/lab/train/task.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab::cli {

/// A model at fixed shapes, on random data: what `deq bench` measures.
class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  virtual std::string name() const = 0;  ///< with its shapes
  virtual torch::nn::Module& model() = 0;
  /// A pass with its loss.
  virtual TaskPass forward(const EquilibriumPlan& how) = 0;
};

/// One with an equilibrium layer.
class EquilibriumSubject : public Subject {
 public:
  /// The multiplications and additions of one evaluation of f.
  virtual double flops_of_f() = 0;
};

/// The multiscale DEQ on random images: a preset on images of its data set's size, as far as
/// nothing else is said.
struct MdeqSizes {
  int64_t batch = 96;
  std::string preset = "cifar-large-reg";
  std::optional<int64_t> channels{};  ///< of the finest scale; the others' grow with it
  std::optional<int64_t> groups{};    ///< of the group norms
  std::optional<int64_t> image_size{};
};
std::unique_ptr<EquilibriumSubject> mdeq_subject(const MdeqSizes& sizes,
                                                 const torch::Device& device, Precision precision);

/// The DEQ-Transformer of the paper on WikiText-103's shapes.
std::unique_ptr<EquilibriumSubject> transformer_subject(bool pre_ln, int64_t batch,
                                                        const torch::Device& device,
                                                        Precision precision);

/// The Equilibrium Reasoner on random puzzles; at its published size by default.
struct ReasonerSizes {
  int64_t batch = 768, tokens = 81, width = 512;
  bool attention = false;
};
std::unique_ptr<EquilibriumSubject> reasoner_subject(const ReasonerSizes& sizes,
                                                     const torch::Device& device,
                                                     Precision precision);

}  // namespace deq::lab::cli
