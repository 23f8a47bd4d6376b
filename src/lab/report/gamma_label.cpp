#include "lab/report/gamma_label.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace deq::lab {
namespace {

/// The shortest text of a number.
std::string short_text(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? std::to_string(static_cast<int64_t>(value)) : nlohmann::json(value).dump();
}

std::string describe_shape(const Schedule& schedule) {
  std::string result;
  if (const auto* constant = std::get_if<ConstantSchedule>(&schedule.shape)) {
    result = short_text(constant->value);
  } else if (const auto* linear = std::get_if<LinearSchedule>(&schedule.shape)) {
    result = short_text(linear->from) + " → " + short_text(linear->to);
  } else if (const auto* staircase = std::get_if<StaircaseSchedule>(&schedule.shape)) {
    result = short_text(staircase->start) + " + " + short_text(staircase->increment) + " every " +
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
                          ? describe_shape(jacobian.gamma)
                          : "from " + short_text(jacobian.gamma.at(0)) + ", steered to " +
                                name_of(control.hold) + " = " + short_text(control.target);
  return jacobian.stop_epoch ? result + " until epoch " + std::to_string(*jacobian.stop_epoch)
                             : result;
}

}  // namespace deq::lab
