#pragma once

#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "deq/models.h"

// How the library's aggregates of options look in Python: classes that are made with keywords,
// refuse names they do not have, and cannot be changed. One line describes one field.

namespace deq::python {

/// The names of an enumeration's values, in their order.
template <class Enum>
struct EnumNames;
template <>
struct EnumNames<NormScope> {
  static constexpr const char* values[] = {"per-sample", "whole-batch"};
};
template <>
struct EnumNames<RidgeScale> {
  static constexpr const char* values[] = {"relative", "absolute"};
};
template <>
struct EnumNames<ProbeDistribution> {
  static constexpr const char* values[] = {"gaussian", "rademacher"};
};
template <>
struct EnumNames<OnFailure> {
  static constexpr const char* values[] = {"report", "raise"};
};
template <>
struct EnumNames<Replay> {
  static constexpr const char* values[] = {"automatic", "off", "checked"};
};

template <>
struct EnumNames<models::Splitting> {
  static constexpr const char* values[] = {"peaceman-rachford", "forward-backward"};
};
template <>
struct EnumNames<models::MemoryGates> {
  static constexpr const char* values[] = {"none", "unit", "memory"};
};
template <>
struct EnumNames<models::ReasonerStart> {
  static constexpr const char* values[] = {"fixed", "random"};
};
template <>
struct EnumNames<models::Stem> {
  static constexpr const char* values[] = {"cifar", "imagenet"};
};

/// "'a', 'b' or 'c'", or one of these kinds of objects.
std::string alternatives(const std::vector<std::string>& words);

/// An object as a message quotes it.
std::string quoted(py::handle object);

// Each reads one kind of value: nothing where it was read, else what it must be.
std::optional<std::string> read(py::handle from, double& to);
std::optional<std::string> read(py::handle from, int& to);
std::optional<std::string> read(py::handle from, int64_t& to);
std::optional<std::string> read(py::handle from, bool& to);
std::optional<std::string> read(py::handle from, std::optional<int64_t>& to);
std::optional<std::string> read(py::handle from, Replay& to);
std::optional<std::string> read(py::handle from, std::shared_ptr<MixingRule>& to);

template <class Value>
std::optional<std::string> read(py::handle from, std::vector<Value>& to) {
  if (!py::isinstance<py::list>(from) && !py::isinstance<py::tuple>(from)) return "a list";
  std::vector<Value> values;
  for (const auto item : from) {
    Value value{};
    if (const auto expected = read(item, value)) return "a list, each item " + *expected;
    values.push_back(value);
  }
  to = std::move(values);
  return {};
}

template <class Value, size_t kCount>
std::optional<std::string> read(py::handle from, std::array<Value, kCount>& to) {
  std::vector<Value> values;
  const auto refused = read(from, values);
  if (refused || values.size() != kCount) return "a list of " + std::to_string(kCount) + " numbers";
  std::copy(values.begin(), values.end(), to.begin());
  return {};
}

template <class Enum>
requires std::is_enum_v<Enum> std::optional<std::string> read_name(
    py::handle from, Enum& to, std::vector<std::string> names = {}) {
  const auto others = names.size();
  for (const auto* name : EnumNames<Enum>::values) {
    if (py::isinstance<py::str>(from) && from.cast<std::string>() == name) {
      to = static_cast<Enum>(names.size() - others);
      return {};
    }
    names.push_back("'" + std::string(name) + "'");
  }
  return alternatives(names);
}

template <class Enum>
requires std::is_enum_v<Enum> std::optional<std::string> read(py::handle from, Enum& to) {
  return read_name(from, to);
}

template <class... Kinds>
std::optional<std::string> read(py::handle from, std::variant<Kinds...>& to) {
  bool found = false;
  const auto take = [&](auto* kind) {
    using Kind = std::remove_pointer_t<decltype(kind)>;
    if (!py::isinstance<Kind>(from)) return;
    to = from.cast<Kind>();
    found = true;
  };
  (take(static_cast<Kinds*>(nullptr)), ...);
  if (found) return {};
  return alternatives({py::type::of<Kinds>().attr("__name__").template cast<std::string>()...});
}

template <class... Kinds>
std::optional<std::string> read(py::handle from, std::optional<std::variant<Kinds...>>& to) {
  if (from.is_none()) {
    to = std::nullopt;
    return {};
  }
  std::variant<Kinds...> value;
  if (const auto expected = read(from, value)) return "None, or " + *expected;
  to = std::move(value);
  return {};
}

/// The deq.LearntMixing that was read, or None.
py::object written(const std::shared_ptr<MixingRule>& value);

template <class Value>
py::object written(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return py::str(EnumNames<Value>::values[static_cast<size_t>(value)]);
  } else {
    return py::cast(value);
  }
}

/// A struct of options as a Python class; see python/src/options.cpp.
template <class Options>
class OptionsClass {
 public:
  using Check = std::function<void(const Options&)>;

  OptionsClass(py::module_& module, const char* name, const char* doc, Check check)
      : class_(module, name, doc), name_(name), check_(std::move(check)) {}

  /// access(options) is a reference to the field, also inside a nested struct. `doc` says what it
  /// is, where its name does not.
  template <class Access>
  OptionsClass& field(const char* name, Access access, const std::string& doc = {}) {
    fields_.push_back(
        {.name = name,
         .get =
             [access](const Options& from) { return written(access(const_cast<Options&>(from))); },
         .set = [access](Options& to, py::handle value) { return read(value, access(to)); }});
    const auto shown =
        (doc.empty() ? "" : doc + " ") + "Default: " + quoted(fields_.back().get(Options{})) + ".";
    class_.def_property_readonly(name, fields_.back().get, shown.c_str());
    return *this;
  }

  /// Defines what needs to know all fields.
  py::class_<Options> done() {
    const auto self = *this;
    class_.def(py::init([self](const py::args& positional, const py::kwargs& given) {
      if (!positional.empty()) {
        throw py::type_error(self.name_ + " takes keywords only, such as " + self.name_ + "(" +
                             self.fields_[0].name + "=…)");
      }
      return self.changed(Options{}, given);
    }));
    class_.def(
        "replace",
        [self](const Options& from, const py::kwargs& given) { return self.changed(from, given); },
        "The same with these fields changed.");
    class_.def(
        "to_dict", [self](const Options& from) { return self.dict(from); },
        "The fields and their values.");
    class_.def("__repr__", [self](const Options& from) { return self.text(from); });
    class_.def("__eq__", [self](const Options& from, const py::object& other) -> py::object {
      if (!py::isinstance<Options>(other))
        return py::reinterpret_borrow<py::object>(Py_NotImplemented);
      return py::bool_(self.dict(from).equal(self.dict(other.cast<Options>())));
    });
    // By what is printed: lists have no hash.
    class_.def("__hash__",
               [self](const Options& from) { return py::hash(py::str(self.text(from))); });
    class_.def(
        py::pickle([self](const Options& from) { return self.dict(from); },
                   [self](const py::dict& given) { return self.changed(Options{}, given); }));
    class_.attr("__signature__") = signature();
    return class_;
  }

 private:
  struct Field {
    const char* name;
    std::function<py::object(const Options&)> get;
    std::function<std::optional<std::string>(Options&, py::handle)> set;
  };

  /// What inspect.signature() and help() show of the constructor.
  py::object signature() const {
    const auto inspect = py::module_::import("inspect");
    const auto parameter = inspect.attr("Parameter");
    py::list parameters;
    for (const auto& field : fields_) {
      parameters.append(parameter(field.name, parameter.attr("KEYWORD_ONLY"),
                                  py::arg("default") = field.get(Options{})));
    }
    return inspect.attr("Signature")(parameters);
  }

  std::string text(const Options& from) const {
    std::string fields;
    for (const auto& field : fields_) {
      fields +=
          (fields.empty() ? "" : ", ") + std::string(field.name) + "=" + quoted(field.get(from));
    }
    return name_ + "(" + fields + ")";
  }

  py::dict dict(const Options& from) const {
    py::dict result;
    for (const auto& field : fields_) result[field.name] = field.get(from);
    return result;
  }

  Options changed(Options options, const py::dict& given) const {
    for (const auto& [key, value] : given) set(options, py::str(key), value);
    check_(options);
    return options;
  }

  void set(Options& options, const std::string& key, py::handle value) const {
    std::string known;
    for (const auto& field : fields_) {
      if (key == field.name) {
        if (const auto expected = field.set(options, value)) {
          throw py::type_error(name_ + ": " + key + " is " + quoted(value) + ", must be " +
                               *expected);
        }
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(field.name);
    }
    throw py::type_error(name_ + " has no option '" + key + "'; it has " + known);
  }

  py::class_<Options> class_;
  std::string name_;
  Check check_;
  std::vector<Field> fields_;
};

void bind_options(py::module_& module);

}  // namespace deq::python
