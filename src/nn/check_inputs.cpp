#include "nn/check_inputs.h"

#include <ATen/core/Formatting.h>
#include <fmt/format.h>

#include <exception>
#include <sstream>
#include <utility>

#include "deq/core/error.h"

namespace deq {
namespace {

std::string form_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

std::string forms_of(const State& state) {
  std::string text;
  for (const auto& tensor : state) text += (text.empty() ? "" : ", ") + form_of(tensor);
  return text;
}

void require_form(const State& start, const State& own) {
  const auto given = forms_of(start), expected = forms_of(own);
  if (given == expected) return;
  throw Error(
      fmt::format("the start is {}, but for these inputs the cell's state is {}", given, expected));
}

bool is_about_types(const c10::Error& refusal) {
  const std::string_view text = refusal.what_without_backtrace();
  return text.find("type") != std::string_view::npos;
}

void require_type(const Inputs& inputs, const Cell& cell, const c10::Error& refusal) {
  const auto parameters = cell.parameters();
  if (parameters.empty()) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_floating_point()) continue;
    if (inputs[i].scalar_type() == parameters[0].scalar_type()) continue;
    const std::string_view said = refusal.what_without_backtrace();
    throw Error(fmt::format("input {} is {}, but the layer's first parameter is {}: {}", i,
                            form_of(inputs[i]), form_of(parameters[0]),
                            said.substr(0, said.find('\n'))));
  }
}

}  // namespace

std::shared_ptr<Cell> require_cell(std::shared_ptr<Cell> cell) {
  if (cell == nullptr) throw Error("an equilibrium layer needs a cell, got a null pointer");
  return cell;
}

void require_defined(const std::vector<torch::Tensor>& tensors, std::string_view what) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) throw Error(fmt::format("{} {} is an undefined tensor", what, i));
  }
}

void require_solvable(const State& state) {
  for (const auto& tensor : state) {
    const auto type = tensor.scalar_type();
    if (type == torch::kFloat32 || type == torch::kFloat64) continue;
    throw Error(fmt::format("a state is {}, must be float32 or float64", form_of(tensor)));
  }
}

void explain_refusal(const c10::Error& refusal, Cell& cell, const Inputs& inputs,
                     const State& start) {
  const auto as_it_was = std::current_exception();  // with its own type, such as out of memory
  if (is_about_types(refusal)) require_type(inputs, cell, refusal);
  State own;
  try {
    own = cell.initial_state(inputs);
  } catch (const std::exception&) {
    std::rethrow_exception(as_it_was);
  }
  require_form(start, own);
  std::rethrow_exception(as_it_was);
}

}  // namespace deq
