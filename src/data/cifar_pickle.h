#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// Reads Python's pickles as far as the files of CIFAR-10 use them: protocols 2 and 3, plain values,
// and numpy's arrays of bytes. Nothing named in a file is called: the few names that occur are
// known here, and any other is refused.

namespace deq::cifar {

struct PickledValue;
using PickledItems = std::vector<const PickledValue*>;

struct PickledNone {};
struct PickledTuple {
  PickledItems items;
};
struct PickledList {
  PickledItems items;
};
struct PickledDict {
  std::vector<std::pair<const PickledValue*, const PickledValue*>> items;
};
/// A class or function by its name.
struct PickledName {
  std::string_view module, name;
};
/// A numpy type: "u1" is the byte.
struct PickledType {
  std::string_view name;
};
/// A numpy array; the fields follow after the object itself.
struct PickledArray {
  std::vector<int64_t> shape;
  std::string_view type;
  std::string_view bytes;
  bool complete = false;
};

struct PickledValue {
  std::variant<PickledNone, bool, int64_t, std::string_view, PickledTuple, PickledList, PickledDict,
               PickledName, PickledType, PickledArray>
      value;
};

/// A file that was read. Its values belong to it and refer to the bytes it was read from.
class Pickle {
 public:
  /// Throws Error with the reason for bytes that are no such pickle.
  explicit Pickle(std::string_view bytes);

  /// What the dictionary that the file holds has for `key`; an Error when it has nothing.
  const PickledValue& at(std::string_view key) const;

 private:
  friend class PickleMachine;

  std::deque<PickledValue> values_;  // a deque: they do not move
  std::deque<std::string> texts_;
  const PickledValue* result_ = nullptr;
};

}  // namespace deq::cifar
