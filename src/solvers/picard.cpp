#include "kernels/history/history.h"
#include "solvers/methods.h"

namespace deq {
namespace {

// z ← z + damping·g, where g = f(z) − z.
class PicardMethod final : public Method {
 public:
  explicit PicardMethod(const Picard& options) : options_(options) {}

  void begin() override {}

  void step(Iteration& it) override {
    auto coefficients = torch::zeros({it.batch(), 2}, torch::kDouble);
    auto c = coefficients.accessor<double, 2>();
    for (int64_t b = 0; b < it.batch(); ++b) {
      c[b][0] = it.active(b) ? options_.damping : 0.0;
      c[b][1] = 1.0 - c[b][0];
    }
    auto next = it.slab();
    kernels::combine({it.f(), it.z()}, coefficients, next);
    it.move_to(next);
  }

 private:
  Picard options_;
};

}  // namespace

std::unique_ptr<Method> make_method(const Picard& options) {
  return std::make_unique<PicardMethod>(options);
}

}  // namespace deq
