#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <type_traits>

namespace deq::python {

namespace py = pybind11;

/// What lets copy and pickle make one again from these fields, which are plain data.
template <class Value, class... Fields>
auto pickled(Fields Value::*... fields) {
  const auto as_python = []<class Field>(const Field& field) {
    if constexpr (std::is_enum_v<Field>)
      return py::int_(static_cast<int>(field));
    else
      return py::cast(field);
  };
  const auto read = []<class Field>(py::handle from, Field& field) {
    if constexpr (std::is_enum_v<Field>)
      field = static_cast<Field>(from.cast<int>());
    else
      field = from.cast<Field>();
  };
  return py::pickle([=](const Value& value) { return py::make_tuple(as_python(value.*fields)...); },
                    [=](const py::tuple& state) {
                      Value value;
                      size_t next = 0;
                      (read(state[next++], value.*fields), ...);
                      return value;
                    });
}

}  // namespace deq::python
