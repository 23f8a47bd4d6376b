#pragma once

#include <fmt/format.h>
#include <string_view>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "lab/config/description.h"

namespace deq::lab::reproduce {

/// How large a reproduction is: minutes on two cores, minutes on one GPU, hours on one, or as
/// published. In this order.
enum class Scale { Small, Books, Long, Paper };

inline constexpr config::Choice<Scale> kScales[] = {{"small", Scale::Small},
                                                    {"books", Scale::Books},
                                                    {"long", Scale::Long},
                                                    {"paper", Scale::Paper}};

inline std::string_view name(Scale scale) {
  return config::name_of(scale, kScales);
}

/// The name must be that of a scale.
inline Scale scale_named(std::string_view name) {
  for (const auto& scale : kScales) {
    if (scale.name == name) return scale.value;
  }
  throw UsageError(fmt::format("scale = \"{}\": must be {}", name,
                               config::allowed_names(config::names_of(kScales))));
}

/// The data that a run needs, by the option that says where it lies.
enum class Data { None, Cifar10, Text, ImageNet };

inline constexpr config::Choice<Data> kData[] = {{"none", Data::None},
                                                 {"cifar10", Data::Cifar10},
                                                 {"text", Data::Text},
                                                 {"imagenet", Data::ImageNet}};

inline std::string_view name(Data data) {
  return config::name_of(data, kData);
}

}  // namespace deq::lab::reproduce
