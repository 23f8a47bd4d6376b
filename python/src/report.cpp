#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <string>

#include "bindings.h"
#include "deq/deq.h"
#include "pickled.h"

namespace deq::python {
namespace {

py::dict to_dict(const TracePoint& point) {
  return py::dict(
      py::arg("evaluations") = point.evaluations, py::arg("active") = point.active,
      py::arg("mean_absolute") = point.mean_absolute, py::arg("max_absolute") = point.max_absolute,
      py::arg("mean_relative") = point.mean_relative, py::arg("max_relative") = point.max_relative);
}

py::dict to_dict(const SampleReport& sample) {
  return py::dict(py::arg("status") = status_name(sample.status),
                  py::arg("evaluations") = sample.evaluations,
                  py::arg("absolute") = sample.absolute, py::arg("relative") = sample.relative);
}

template <class Item>
py::list to_dicts(const std::vector<Item>& items) {
  py::list result;
  for (const auto& item : items) result.append(to_dict(item));
  return result;
}

py::dict to_dict(const Report& report) {
  return py::dict(
      py::arg("status") = status_name(report.status), py::arg("evaluations") = report.evaluations,
      py::arg("restarts") = report.restarts, py::arg("ridge_raises") = report.ridge_raises,
      py::arg("skipped_updates") = report.skipped_updates,
      py::arg("step_rejections") = report.step_rejections, py::arg("fallbacks") = report.fallbacks,
      py::arg("samples") = to_dicts(report.samples), py::arg("trace") = to_dicts(report.trace));
}

/// One number of every sample as a tensor, without an object of Python's for each.
template <class Number>
torch::Tensor of_samples(const Report& report, Number SampleReport::*field) {
  auto numbers = torch::empty(static_cast<int64_t>(report.samples.size()),
                              torch::dtype(c10::CppTypeToScalarType<Number>()));
  std::transform(report.samples.begin(), report.samples.end(), numbers.template data_ptr<Number>(),
                 [field](const SampleReport& sample) { return sample.*field; });
  return numbers;
}

py::list statuses_of(const Report& report) {
  py::list statuses;
  for (const auto& sample : report.samples) statuses.append(status_name(sample.status));
  return statuses;
}

}  // namespace

void bind_reports(py::module_& module) {
  py::class_<TracePoint>(module, "TracePoint", "What one observed iterate looked like.")
      .def_readonly("evaluations", &TracePoint::evaluations)
      .def_readonly("active", &TracePoint::active)
      .def_readonly("mean_absolute", &TracePoint::mean_absolute)
      .def_readonly("max_absolute", &TracePoint::max_absolute)
      .def_readonly("mean_relative", &TracePoint::mean_relative)
      .def_readonly("max_relative", &TracePoint::max_relative)
      .def("to_dict", [](const TracePoint& point) { return to_dict(point); })
      .def("__repr__",
           [](const TracePoint& point) {
             return "TracePoint(" + py::str(to_dict(point)).cast<std::string>() + ")";
           })
      .def(pickled(&TracePoint::evaluations, &TracePoint::active, &TracePoint::mean_absolute,
                   &TracePoint::max_absolute, &TracePoint::mean_relative,
                   &TracePoint::max_relative));
  py::class_<SampleReport>(module, "SampleReport", "What happened to one sample.")
      .def_property_readonly("status",
                             [](const SampleReport& sample) { return status_name(sample.status); })
      .def_readonly("evaluations", &SampleReport::evaluations)
      .def_readonly("absolute", &SampleReport::absolute)
      .def_readonly("relative", &SampleReport::relative)
      .def("to_dict", [](const SampleReport& sample) { return to_dict(sample); })
      .def("__repr__",
           [](const SampleReport& sample) {
             return "SampleReport(" + py::str(to_dict(sample)).cast<std::string>() + ")";
           })
      .def(pickled(&SampleReport::status, &SampleReport::evaluations, &SampleReport::absolute,
                   &SampleReport::relative));
  py::class_<Report>(module, "Report", "Everything a solve says about itself.")
      .def_property_readonly("status",
                             [](const Report& report) { return status_name(report.status); })
      .def_property_readonly("advice", [](const Report& report) { return advice(report.status); })
      .def_property_readonly("converged", &Report::converged)
      .def_readonly("evaluations", &Report::evaluations)
      .def_readonly("samples", &Report::samples)
      .def_property_readonly("statuses", &statuses_of, "That of every sample.")
      .def_property_readonly(
          "sample_evaluations",
          [](const Report& report) { return of_samples(report, &SampleReport::evaluations); },
          "What every sample had spent when it stopped, [B].")
      .def_property_readonly(
          "absolute",
          [](const Report& report) { return of_samples(report, &SampleReport::absolute); },
          "‖f(z) − z‖ of every sample, [B].")
      .def_property_readonly(
          "relative",
          [](const Report& report) { return of_samples(report, &SampleReport::relative); },
          "‖f(z) − z‖ / ‖f(z)‖ of every sample, [B].")
      .def_readonly("trace", &Report::trace)
      .def_readonly("restarts", &Report::restarts)
      .def_readonly("ridge_raises", &Report::ridge_raises)
      .def_readonly("skipped_updates", &Report::skipped_updates)
      .def_readonly("step_rejections", &Report::step_rejections)
      .def_readonly("fallbacks", &Report::fallbacks)
      .def_property_readonly("mean_relative", &Report::mean_relative)
      .def_property_readonly("max_relative", &Report::max_relative)
      .def_property_readonly("max_absolute", &Report::max_absolute)
      .def("relative_quantile", &Report::relative_quantile, py::arg("q"))
      .def("brief", &Report::brief)
      .def("to_dict", [](const Report& report) { return to_dict(report); })
      .def("__str__", &Report::brief)
      .def("__repr__", [](const Report& report) { return "<Report: " + report.brief() + ">"; })
      .def(pickled(&Report::status, &Report::evaluations, &Report::samples, &Report::trace,
                   &Report::restarts, &Report::ridge_raises, &Report::skipped_updates,
                   &Report::step_rejections, &Report::fallbacks));
}

}  // namespace deq::python
