#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/autocast.h"
#include "deq/core/cell.h"
#include "replay/check.h"
#include "replay/graph_work.h"
#include "replay/recordings.h"

namespace deq {

/// f with all that is constant during one pass.
struct BoundStep {
  std::shared_ptr<Cell> cell;
  StateLayout layout;
  Context context;

  std::optional<AutocastSetting> autocast{};  // as it stood for the context; now, if there is none

  torch::Tensor operator()(const torch::Tensor& slab) const;
};

/// The same function with its context detached.
BoundStep without_gradients(BoundStep step);

/// What a layer is asked to do at fixed shapes.
struct StepShape {
  std::shared_ptr<Cell> cell;
  StateLayout layout;
  Inputs inputs;
  torch::Tensor z;  ///< a slab
  bool with_gradients = false;
  bool checked = false;
  std::shared_ptr<RefusalNotice> notice = std::make_shared<RefusalNotice>();
};

/// A cell's prepare() and step() at fixed shapes, the step's products with J and all gradients, as
/// graphs on memory of their own: what a pass brings is copied in, and what it gets holds until the
/// next call of the same function.
/// Serves one pass at a time, whose order is load, f as often as wanted, linearise, products, then
/// vjp and the gradients.
class RecordedStep {
 public:
  explicit RecordedStep(const StepShape& like);
  ~RecordedStep();
  RecordedStep(const RecordedStep&) = delete;
  RecordedStep& operator=(const RecordedStep&) = delete;

  /// prepare().
  void load(const Inputs& inputs);
  const torch::Tensor& f(const torch::Tensor& z);
  /// z here is not copied.
  const torch::Tensor& z_buffer() const { return z_; }

  /// f with its graph at z, which all that follows refers to. Needs gradients, as the rest does.
  void linearise(const torch::Tensor& z);
  torch::Tensor f_at_linearisation() const { return tape_.f.detach(); }
  const torch::Tensor& vjp(const torch::Tensor& u);
  /// u here is not copied.
  const torch::Tensor& u_buffer() const { return u_; }
  /// uᵀ∂f/∂θ for all θ of `leaves`; undefined where f does not depend on one.
  const std::vector<torch::Tensor>& gradients(const torch::Tensor& u);

  /// uᵀJ as something to be differentiated, for the `number`-th u of this pass, and w·∂(uᵀJ)/∂θ.
  /// They are replayed where they can be recorded, which is tried by the first, else evaluated.
  bool records_product(size_t number);
  torch::Tensor product(size_t number, const torch::Tensor& u);
  const std::vector<torch::Tensor>& product_gradients(size_t number, const torch::Tensor& w);
  /// uᵀJ with its graph, and the gradients of it. Nothing may be recorded from one to the other.
  torch::Tensor evaluated_product(const torch::Tensor& u);
  std::vector<torch::Tensor> evaluated_product_gradients(const torch::Tensor& product,
                                                         const torch::Tensor& w);

  /// Everything of a pass with gradients: its inputs, then the cell's parameters.
  std::vector<torch::Tensor> leaves(const Inputs& inputs) const {
    return leaves_of(inputs, work_.parameters());
  }

 private:
  /// f's graph at z*, recorded or evaluated.
  struct Tape {
    BoundStep step;
    GradientEnds& ends;
    Inputs inputs{};
    torch::Tensor z{}, f{};

    void prepare(bool with_gradients);
    void linearise();
    /// uᵀJ.
    torch::Tensor product(const torch::Tensor& u, bool differentiable) const;
    /// Of value·along, for the inputs that require some and the parameters.
    std::vector<torch::Tensor> gradients(const torch::Tensor& value,
                                         const torch::Tensor& along) const {
      return ends.gradients(value, leaves_of(inputs), along);
    }
  };
  struct Product {
    torch::Tensor u, w, value{};
    std::vector<torch::Tensor> gradients{};
    std::unique_ptr<DeviceGraph> graph{}, gradients_graph{};
  };
  class Evaluated;

  void record_gradients();
  std::unique_ptr<Product> record_product();

  bool with_gradients_;
  GraphWork work_;
  Tape tape_;
  BoundStep constant_;  // the tape's step without gradients, on the same memory

  torch::Tensor z_, f_;  // of the solve
  torch::Tensor u_, vjp_;
  std::vector<torch::Tensor> gradients_;
  std::vector<std::unique_ptr<Product>> products_;
  bool products_refused_ = false;
  std::shared_ptr<RefusalNotice> notice_;
  std::unique_ptr<DeviceGraph> prepare_graph_, f_graph_, tape_graph_, vjp_graph_, gradients_graph_;
  std::unique_ptr<Evaluated> check_;  // where replays are checked
};

}  // namespace deq
