#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "deq/data/image_check.h"

// What the subcommands of `deq data` say.

namespace deq::cli {

/// Everything that is known, with every problem by name.
nlohmann::ordered_json to_json(const ImageCheck& check);

/// Names of files need not be UTF-8: what is not is replaced.
void print_json(const nlohmann::ordered_json& object);

/// The splits: counts, sizes, channels, statistics.
void print_summary(const ImageCheck& check);

/// The first of the problems, how many there are, and what is not used.
void print_problems(const ImageCheck& check, size_t shown);

/// The lines of a configuration that read these images from `path`.
std::string suggested_config(const ImageCheck& check, const std::string& path);

}  // namespace deq::cli
