#include <memory>
#include <optional>
#include <utility>

#include "bindings.h"
#include "cell.h"
#include "options.h"

namespace deq::python {
namespace {

/// The rule of a deq.LearntMixing: C++ computes it, and options give the module back.
class PythonMixing final : public MixingRule {
 public:
  PythonMixing(std::shared_ptr<LearntMixingImpl> core, Held module)
      : core_(std::move(core)), module_(std::move(module)) {}

  int64_t memory() const override { return core_->memory(); }
  MixingWeights weights(const MixingHistory& history) override { return core_->weights(history); }
  const py::object& module() const { return *module_; }

 private:
  std::shared_ptr<LearntMixingImpl> core_;
  Held module_;
};

}  // namespace

std::optional<std::string> read(py::handle from, std::shared_ptr<MixingRule>& to) {
  if (from.is_none()) {
    to = nullptr;
    return {};
  }
  const auto core = py::getattr(from, "core", py::none());
  if (!py::isinstance<LearntMixingImpl>(core)) return "a LearntMixing or None";
  to = std::make_shared<PythonMixing>(core.cast<std::shared_ptr<LearntMixingImpl>>(),
                                      Held(py::reinterpret_borrow<py::object>(from)));
  return {};
}

py::object written(const std::shared_ptr<MixingRule>& value) {
  const auto* mixing = dynamic_cast<const PythonMixing*>(value.get());
  return mixing != nullptr ? mixing->module() : py::none();
}

void bind_mixing(py::module_& module) {
  py::class_<LearntMixingImpl, std::shared_ptr<LearntMixingImpl>>(module, "LearntMixingCore")
      .def(py::init(
               [](int64_t memory, int64_t hidden, const std::optional<at::Generator>& generator) {
                 return std::make_shared<LearntMixingImpl>(
                     LearntMixingOptions{.memory = memory, .hidden = hidden}, generator);
               }),
           py::arg("memory"), py::arg("hidden"), py::arg("generator"))
      .def("named_parameters",
           [](const LearntMixingImpl& self) { return self.named_parameters().pairs(); })
      .def("named_buffers",
           [](const LearntMixingImpl& self) { return self.named_buffers().pairs(); });
}

}  // namespace deq::python
