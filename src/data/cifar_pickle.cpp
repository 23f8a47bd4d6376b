#include "data/cifar_pickle.h"

#include <algorithm>
#include <cstring>

#include "deq/core/error.h"

// A pickle is a program for a machine with a stack, a list of marks into it and a memo. Operations
// have one byte, whose names here are those of Python's module pickletools.

namespace deq::cifar {
namespace {

// Of the array's object, its state: (version, shape, type, is in Fortran's order, bytes).
constexpr size_t kArrayFields = 5;

bool is_multiarray(std::string_view module) {
  return module == "numpy.core.multiarray" || module == "numpy._core.multiarray";
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, Pickle& pickle) : rest_(bytes), pickle_(pickle) {}

  const PickledValue* run() {
    require(next() == '\x80', "it does not begin as a pickle of protocol 2 or 3");
    const int protocol = next();
    require(protocol == 2 || protocol == 3, "it is a pickle of protocol ", protocol,
            ", must be 2 or 3");
    for (char operation = next(); operation != '.'; operation = next()) step(operation);
    return pop();
  }

 private:
  std::string_view take(size_t count) {
    require(count <= rest_.size(), "the pickle ends too early");
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  char next() { return take(1).front(); }

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);  // little endian
    return value;
  }

  std::string_view line() {
    const auto end = rest_.find('\n');
    require(end != std::string_view::npos, "the pickle ends too early");
    const auto text = take(end);
    take(1);
    return text;
  }

  void push(const PickledValue* value) { stack_.push_back(value); }
  template <class Value>
  void push_new(Value&& value) {
    push(&pickle_.values_.emplace_back(PickledValue{std::forward<Value>(value)}));
  }

  const PickledValue* pop() {
    require(!stack_.empty() && (marks_.empty() || stack_.size() > marks_.back()),
            "the pickle takes more values than it has");
    const auto* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  PickledItems pop_to_mark() {
    require(!marks_.empty(), "the pickle returns to a mark it has not set");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    PickledItems items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  /// The last `count` values as a tuple.
  void push_tuple(size_t count) {
    PickledItems items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_new(PickledTuple{std::move(items)});
  }

  /// What is filled after it was made: the value below those that were popped.
  template <class Value>
  Value& top() {
    require(!stack_.empty(), "the pickle takes more values than it has");
    // Values are const for their readers, not for the machine that makes them.
    auto* value = std::get_if<Value>(&const_cast<PickledValue*>(stack_.back())->value);
    require(value != nullptr, "the pickle fills a value of another kind");
    return *value;
  }

  void append(const PickledItems& items) {
    auto& list = top<PickledList>().items;
    list.insert(list.end(), items.begin(), items.end());
  }

  void set_items(const PickledItems& items) {
    require(items.size() % 2 == 0, "the pickle has a key without a value");
    auto& dict = top<PickledDict>().items;
    for (size_t i = 0; i < items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
  }

  void remember(uint32_t place) {
    require(!stack_.empty(), "the pickle takes more values than it has");
    memo_[place] = stack_.back();
  }

  void recall(uint32_t place) {
    const auto found = memo_.find(place);
    require(found != memo_.end(), "the pickle recalls what it has not stored");
    push(found->second);
  }

  template <class Value>
  static const Value& as(const PickledValue* value) {
    const auto* held = std::get_if<Value>(&value->value);
    require(held != nullptr, "the pickle has an argument of another kind");
    return *held;
  }

  /// The bytes that Python 3 writes as text in protocol 2: each is a letter of Latin-1, in UTF-8.
  std::string_view latin1(std::string_view text) {
    auto& bytes = pickle_.texts_.emplace_back();
    bytes.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
      auto letter = static_cast<unsigned char>(text[i]);
      if (letter >= 0x80) {
        require((letter & 0xfc) == 0xc0 && i + 1 < text.size(),
                "the pickle's bytes are no Latin-1");
        letter = static_cast<unsigned char>((letter & 3) << 6 | (text[++i] & 0x3f));
      }
      bytes.push_back(static_cast<char>(letter));
    }
    return bytes;
  }

  /// Stands for a call: what the known functions would have made of their arguments.
  void reduce() {
    const auto arguments = as<PickledTuple>(pop()).items;
    const auto& [module, name] = as<PickledName>(pop());
    if (is_multiarray(module) && name == "_reconstruct") {
      push_new(PickledArray{});
    } else if (module == "numpy" && name == "dtype" && !arguments.empty()) {
      push_new(PickledType{as<std::string_view>(arguments[0])});
    } else if (module == "_codecs" && name == "encode" && !arguments.empty()) {
      push_new(latin1(as<std::string_view>(arguments[0])));
    } else {
      throw Error(c10::str("the pickle calls ", module, ".", name,
                           ", which is no part of a batch of CIFAR-10"));
    }
  }

  void build() {
    const auto state = as<PickledTuple>(pop()).items;
    require(!stack_.empty(), "the pickle takes more values than it has");
    if (std::holds_alternative<PickledType>(stack_.back()->value)) return;  // byte order, of a byte
    auto& array = top<PickledArray>();
    require(state.size() == kArrayFields, "the pickle's array has ", state.size(),
            " fields, must be ", kArrayFields);
    array.shape.clear();
    for (const auto* size : as<PickledTuple>(state[1]).items) {
      array.shape.push_back(as<int64_t>(size));
    }
    array.type = as<PickledType>(state[2]).name;
    require(!as<bool>(state[3]), "the pickle's array is in Fortran's order, must be in C's");
    array.bytes = as<std::string_view>(state[4]);
    array.complete = true;
  }

  void name() {
    const auto module = line();
    push_new(PickledName{module, line()});
  }

  void step(char operation) {
    switch (operation) {
      case 'N':
        return push_new(PickledNone{});
      case '\x88':
        return push_new(true);
      case '\x89':
        return push_new(false);
      case 'K':
        return push_new(int64_t{number<uint8_t>()});
      case 'M':
        return push_new(int64_t{number<uint16_t>()});
      case 'J':
        return push_new(int64_t{number<int32_t>()});
      case 'U':  // SHORT_BINSTRING
      case 'C':
        return push_new(take(number<uint8_t>()));
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
      case 'X':
        return push_new(take(number<uint32_t>()));
      case '(':
        return marks_.push_back(stack_.size());
      case ')':
        return push_tuple(0);
      case '\x85':
        return push_tuple(1);
      case '\x86':
        return push_tuple(2);
      case '\x87':
        return push_tuple(3);
      case 't':
        return push_new(PickledTuple{pop_to_mark()});
      case ']':
        return push_new(PickledList{});
      case '}':
        return push_new(PickledDict{});
      case 'a':
        return append({pop()});
      case 'e':
        return append(pop_to_mark());
      case 's': {
        const auto* value = pop();
        const auto* key = pop();
        return set_items({key, value});
      }
      case 'u':
        return set_items(pop_to_mark());
      case 'q':
        return remember(number<uint8_t>());
      case 'r':
        return remember(number<uint32_t>());
      case 'h':
        return recall(number<uint8_t>());
      case 'j':
        return recall(number<uint32_t>());
      case 'c':
        return name();
      case 'R':
        return reduce();
      case 'b':
        return build();
      default:
        throw Error(c10::str("the pickle has operation ",
                             static_cast<int>(static_cast<unsigned char>(operation)),
                             ", which is no part of a batch of CIFAR-10"));
    }
  }

  std::string_view rest_;
  Pickle& pickle_;
  PickledItems stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, const PickledValue*> memo_;
};

Pickle::Pickle(std::string_view bytes) {
  result_ = PickleMachine(bytes, *this).run();
  require(std::holds_alternative<PickledDict>(result_->value), "the pickle holds no dictionary");
}

const PickledValue& Pickle::at(std::string_view key) const {
  for (const auto& [name, value] : std::get<PickledDict>(result_->value).items) {
    const auto* text = std::get_if<std::string_view>(&name->value);
    if (text != nullptr && *text == key) return *value;
  }
  throw Error(c10::str("the pickle has no \"", key, "\""));
}

}  // namespace deq::cifar
