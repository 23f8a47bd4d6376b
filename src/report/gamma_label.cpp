#include "report/gamma_label.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace deq {
namespace {

/// As short as a number can be said.
std::string text(double value) {
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value))
                                    : nlohmann::json(value).dump();
}

std::string describe(const Schedule& schedule) {
  std::string result;
  if (const auto* constant = std::get_if<ConstantSchedule>(&schedule.shape)) {
    result = text(constant->value);
  } else if (const auto* linear = std::get_if<LinearSchedule>(&schedule.shape)) {
    result = text(linear->from) + " → " + text(linear->to);
  } else if (const auto* staircase = std::get_if<StaircaseSchedule>(&schedule.shape)) {
    result = text(staircase->start) + " + " + text(staircase->increment) + " every " +
             std::to_string(staircase->every);
  }
  return schedule.stop ? result + " until step " + std::to_string(*schedule.stop) : result;
}

std::string name_of(Held held) {
  switch (held) {
    case Held::SpectralRadius:
      return "ρ";
    case Held::Residual:
      return "residual";
    case Held::ForwardEvaluations:
      return "evaluations";
    case Held::Nothing:
      break;
  }
  return {};
}

}  // namespace

std::string describe_gamma(const JacobianConfig& jacobian) {
  const auto& control = jacobian.control;
  const auto result = control.hold == Held::Nothing
                          ? describe(jacobian.gamma)
                          : "from " + text(jacobian.gamma.at(0)) + ", steered to " +
                                name_of(control.hold) + " = " + text(control.target);
  return jacobian.stop_epoch ? result + " until epoch " + std::to_string(*jacobian.stop_epoch)
                             : result;
}

}  // namespace deq
