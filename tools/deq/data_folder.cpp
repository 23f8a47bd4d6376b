#include "data_folder.h"

#include <filesystem>

#include "lab/config/document.h"

namespace deq::lab::cli {

std::string data_folder(const Experiment& experiment) {
  const auto document = config::parse_document(experiment.config, "config", {});
  const auto* data = document.root.find("data");
  const auto* keys = data == nullptr ? nullptr : std::get_if<config::Table>(&data->value);
  const auto* path = keys == nullptr ? nullptr : keys->find("path");
  const auto* text = path == nullptr ? nullptr : std::get_if<std::string>(&path->value);
  return text == nullptr ? "" : *text;
}

std::string fault_of_folder(const std::string& folder) {
  if (std::filesystem::is_directory(folder)) return "";
  return folder + (std::filesystem::exists(folder) ? " is no folder" : " does not exist");
}

}  // namespace deq::lab::cli
