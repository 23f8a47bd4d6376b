#include <c10/util/ArrayRef.h>

#include <algorithm>

#include "data/cifar_files.h"
#include "data/cifar_pickle.h"

// A dictionary with "data", a numpy array of bytes [images, 3072], and "labels", a list of numbers.

namespace deq::cifar {
namespace {

const PickledItems& list_at(const Pickle& pickle, std::string_view key) {
  const auto* list = std::get_if<PickledList>(&pickle.at(key).value);
  require(list != nullptr, "\"", key, "\" is no list");
  return list->items;
}

}  // namespace

void read_python_batch(std::string_view bytes, const Rows& rows) {
  const Pickle pickle(bytes);
  const auto* data = std::get_if<PickledArray>(&pickle.at("data").value);
  require(data != nullptr && data->complete && (data->type == "u1" || data->type == "|u1"),
          "\"data\" is no array of bytes");
  const std::vector<int64_t> expected = {rows.count, kPixelBytes};
  require(data->shape == expected &&
              static_cast<int64_t>(data->bytes.size()) == rows.count * kPixelBytes,
          "\"data\" has shape ", c10::IntArrayRef(data->shape), " and ", data->bytes.size(),
          " bytes, must be ", c10::IntArrayRef(expected));
  const auto& labels = list_at(pickle, "labels");
  require(static_cast<int64_t>(labels.size()) == rows.count, "it has ", labels.size(),
          " labels, must be ", rows.count);
  for (int64_t i = 0; i < rows.count; ++i) {
    const auto* label = std::get_if<int64_t>(&labels[static_cast<size_t>(i)]->value);
    require(label != nullptr, "the label of image ", i, " is no number");
    require_label(*label, i);
    rows.labels[i] = *label;
  }
  std::copy(data->bytes.begin(), data->bytes.end(), rows.pixels);
}

std::vector<std::string> read_python_classes(std::string_view bytes) {
  const Pickle pickle(bytes);
  std::vector<std::string> classes;
  for (const auto* item : list_at(pickle, "label_names")) {
    const auto* name = std::get_if<std::string_view>(&item->value);
    require(name != nullptr, "a class has no name");
    classes.emplace_back(*name);
  }
  return classes;
}

}  // namespace deq::cifar
