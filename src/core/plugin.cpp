#include "core/plugin.h"

#include <dlfcn.h>

#include <filesystem>

namespace deq {

std::string load_plugin(const std::string& file) {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&load_plugin), &info);
  const auto path = std::filesystem::weakly_canonical(info.dli_fname).parent_path() / file;
  if (!std::filesystem::exists(path)) return path.string() + " does not exist";
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr ? dlerror() : std::string();
}

}  // namespace deq
