#include "lab/report/synthetic_figures.h"

#include <algorithm>
#include <cmath>

namespace deq::lab {
namespace {

using nlohmann::json;

constexpr double kSliceInputs[] = {-1.0, 0.5, 1.9};  // the inputs marked in the paper's figure 9
constexpr int64_t kSurfacePoints = 61;
constexpr int64_t kSlicePoints = 201;
constexpr int64_t kShownSamples = 250;
constexpr int64_t kRowsAtOnce = 64;
constexpr int64_t kShownEvaluations = 25;
constexpr double kShownTolerance = 1e-6;

std::vector<double> values(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kCPU, torch::kDouble).contiguous().view(-1);
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

/// f(z; x) for a column of z and a column of x, one pair per row.
torch::Tensor evaluate_cell(Cell& cell, const torch::Tensor& z, const torch::Tensor& x) {
  std::vector<torch::Tensor> parts;  // so that a wide layer needs no more memory than in training
  for (int64_t row = 0; row < z.size(0); row += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, z.size(0) - row);
    parts.push_back(cell.step({z.narrow(0, row, rows)}, cell.prepare({x.narrow(0, row, rows)}))[0]);
  }
  return torch::cat(parts);
}

/// The z that a solver visits from zero, for one problem of dimension 1.
std::vector<double> visited(const Map& f, const SolverOptions& options) {
  std::vector<double> iterates;
  const Solver solver(with_max_evals(with_tolerance(options, Tolerance{.rtol = kShownTolerance}),
                                     kShownEvaluations));
  solver.solve({f}, torch::zeros({1, 1}, torch::kDouble), [&](const Progress& progress) {
    iterates.push_back(progress.z.item<double>());
    return true;
  });
  return iterates;
}

torch::Tensor equilibria(Equilibrium& layer, const torch::Tensor& x) {
  static const Solver precise(Broyden{.tol = {.rtol = 1e-10}, .max_evals = 100});
  return layer->forward({x}, {.solver = &precise}).z();
}

json surface(Equilibrium& layer, const torch::Tensor& x, const torch::Tensor& z) {
  const auto zs = z.view({-1, 1, 1}).expand({z.numel(), x.numel(), 1}).reshape({-1, 1});
  const auto xs = x.view({1, -1, 1}).expand({z.numel(), x.numel(), 1}).reshape({-1, 1});
  const auto f = evaluate_cell(*layer->cell(), zs, xs).view({z.numel(), x.numel()});
  json rows = json::array();
  for (int64_t i = 0; i < z.numel(); ++i) rows.push_back(values(f[i]));
  return {
      {"x", values(x)}, {"z", values(z)}, {"f", rows}, {"z_star", values(equilibria(layer, x))}};
}

json slice(Equilibrium& layer, double input, const torch::Tensor& z) {
  const auto x = torch::full({1, 1}, input, torch::kDouble);
  const auto context = layer->cell()->prepare({x});
  const Map f = [&](const torch::Tensor& at) { return layer->cell()->step({at}, context)[0]; };
  const auto column = z.view({-1, 1});
  return {{"x", input},
          {"z", values(z)},
          {"f", values(evaluate_cell(*layer->cell(), column, x.expand_as(column)))},
          {"z_star", equilibria(layer, x).item<double>()},
          {"iterates",
           {{"picard", visited(f, Picard{})},
            {"anderson", visited(f, Anderson{})},
            {"broyden", visited(f, Broyden{})}}}};
}

}  // namespace

void add_synthetic_figures(const SyntheticTask& task, json& run) {
  const torch::NoGradGuard no_grad;
  auto layer = task.precise_layer();
  const auto& data = task.config().data;
  const auto x =
      torch::linspace(data.x_min, data.x_max, kSurfacePoints, torch::kDouble).view({-1, 1});
  const auto h = synthetic_target(x);
  const double margin = 0.1 * (h.max() - h.min()).item<double>();
  const double low = h.min().item<double>() - margin, high = h.max().item<double>() + margin;
  run["surface"] = surface(layer, x, torch::linspace(low, high, kSurfacePoints, torch::kDouble));
  run["target"] = {{"x", values(x)}, {"h", values(h)}};
  const auto shown = std::min(kShownSamples, task.validation().x.size(0));
  run["samples"] = {{"x", values(task.validation().x.narrow(0, 0, shown))},
                    {"y", values(task.validation().y.narrow(0, 0, shown))}};
  run["slices"] = json::array();
  for (const double input : kSliceInputs) {
    if (input < data.x_min || input > data.x_max) continue;
    run["slices"].push_back(
        slice(layer, input, torch::linspace(low, high, kSlicePoints, torch::kDouble)));
  }
}

json slope_figure() {
  json figure = json::array();
  for (const double slope : {0.7, -1.4}) {
    // A tanh through (centre, centre): its fixed point is the centre, its slope there is `slope`.
    constexpr double centre = 1.0;
    const Map f = [slope](const torch::Tensor& z) {
      return centre + std::copysign(1.5, slope) * torch::tanh(std::abs(slope) / 1.5 * (z - centre));
    };
    const auto z = torch::linspace(-0.8, 2.8, kSlicePoints, torch::kDouble).view({-1, 1});
    figure.push_back({{"title", slope > 0 ? "slope 0.7" : "slope −1.4"},
                      {"slope", slope},
                      {"z", values(z)},
                      {"f", values(f(z))},
                      {"z_star", centre},
                      {"picard", visited(f, Picard{})},
                      {"broyden", visited(f, Broyden{})}});
  }
  return figure;
}

}  // namespace deq::lab
