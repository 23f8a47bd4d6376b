#include "lab/trained/convert.h"

#include <algorithm>
#include <cctype>

#include "core/require.h"
#include "lab/runs/model_state.h"

namespace deq::lab {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

Tensors without_prefix(const Tensors& tensors, const std::string& prefix, const std::string& what) {
  Tensors stripped;
  for (const auto& [name, tensor] : tensors) {
    const auto rest = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    require(stripped.emplace(rest, tensor).second,
            "{} holds \"{}\" with and without the prefix \"{}\"", what, rest, prefix);
  }
  return stripped;
}

/// The first component that all names share, with its dot, or nothing.
std::string shared_component(const Tensors& tensors) {
  const auto& first = tensors.begin()->first;
  const auto dot = first.find('.');
  if (dot == std::string::npos) return {};
  const auto component = first.substr(0, dot + 1);
  const auto& last = tensors.rbegin()->first;  // the names are sorted
  return last.starts_with(component) ? component : std::string();
}

auto fitting(const Tensors& tensors, const Tensors& model) {
  return std::count_if(tensors.begin(), tensors.end(),
                       [&model](const auto& item) { return model.contains(item.first); });
}

/// How much of the shared components makes the most names fit; the shortest such prefix.
std::string found_prefix(const Tensors& tensors, const Tensors& model, const std::string& what) {
  std::string prefix, best;
  auto rest = tensors;
  auto most = fitting(rest, model);
  for (auto next = shared_component(rest); !next.empty(); next = shared_component(rest)) {
    prefix += next;
    rest = without_prefix(rest, next, what);
    if (const auto fits = fitting(rest, model); fits > most) {
      most = fits;
      best = prefix;
    }
  }
  return best;
}

torch::Tensor fitted(const std::string& name, const torch::Tensor& source,
                     const torch::Tensor& target, const std::string& what) {
  require(source.sizes() == target.sizes(), "{}'s \"{}\" has shape {}, this model's {}", what, name,
          source.sizes(), target.sizes());
  // Single numbers are counters: a model in another precision holds them in that one.
  require(source.dim() == 0 || source.is_floating_point() == target.is_floating_point(),
          "{}'s \"{}\" is of type {}, this model's of type {}", what, name, source.scalar_type(),
          target.scalar_type());
  return source.to(target.scalar_type());
}

bool are_same(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.equal(b);
}

/// The state dict with every tied name in the place of the one that it repeats.
Tensors untied(Tensors tensors, const std::vector<std::pair<std::string, std::string>>& tied,
               const std::string& what) {
  for (const auto& [name, owner] : tied) {
    auto repeated = tensors.extract(name);
    if (repeated.empty()) continue;
    const auto [found, added] = tensors.emplace(owner, repeated.mapped());
    require(added || are_same(found->second, repeated.mapped()),
            "{}'s \"{}\" and \"{}\" are not the same, and this model has them as one", what, name,
            owner);
  }
  return tensors;
}

}  // namespace

Conversion convert_state_dict(const Tensors& state_dict, const torch::nn::Module& model,
                              const std::string& what, const ConvertOptions& options) {
  require(!state_dict.empty(), "{} holds no tensors", what);
  Conversion conversion{
      .tensors = model_tensors(model), .prefix = {}, .missing = {}, .superfluous = {}};
  auto& targets = conversion.tensors;
  conversion.prefix = options.prefix.value_or(found_prefix(state_dict, targets, what));
  const auto sources =
      untied(without_prefix(state_dict, conversion.prefix, what), options.tied, what);
  require(fitting(sources, targets) > 0,
          "{} holds nothing of this model: its first name is \"{}\", the model's \"{}\"", what,
          sources.begin()->first, targets.begin()->first);
  for (const auto& [name, tensor] : sources) {
    if (!targets.contains(name)) conversion.superfluous.push_back(name);
  }
  for (auto& [name, target] : targets) {
    const auto found = sources.find(name);
    if (found == sources.end()) {
      conversion.missing.push_back(name);
      target = target.detach().clone();
    } else {
      target = fitted(name, found->second, target, what);
    }
  }
  return conversion;
}

std::vector<std::string> grouped_names(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const auto& name : names) {
    std::string pattern;
    for (const char c : name) {
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if (!digit) pattern += c;
      if (digit && !pattern.ends_with('*')) pattern += '*';
    }
    groups[pattern].push_back(name);
  }
  std::vector<std::string> lines;
  lines.reserve(groups.size());
  for (const auto& [pattern, members] : groups) {
    lines.push_back(members.size() == 1 ? members.front()
                                        : fmt::format("{} × {}", members.size(), pattern));
  }
  return lines;
}

}  // namespace deq::lab
