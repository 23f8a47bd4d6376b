#include "lab/report/machine.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <sys/utsname.h>

#include <fstream>
#include <vector>

namespace deq::lab {
namespace {

/// What follows a key in a system file of "key: value" or "key=value" lines.
std::string value_of(const char* file, const std::string& key, char separator) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find(separator);
    if (begin == std::string::npos) continue;
    const auto first = line.find_first_not_of(" \t\"", begin + 1);
    const auto last = line.find_last_not_of(" \t\"");
    return first == std::string::npos ? "" : line.substr(first, last + 1 - first);
  }
  return {};
}

/// Asked of the driver, which is loaded with CUDA: torch gives the name only to programs that link
/// its CUDA half, and this one does not.
std::string gpu_name(int index) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return {};
  using GetDevice = int (*)(int* device, int index);
  using GetName = int (*)(char* name, int size, int device);
  const auto get_device = reinterpret_cast<GetDevice>(dlsym(driver, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<GetName>(dlsym(driver, "cuDeviceGetName"));
  int device = 0;
  char name[256] = "";
  const bool told = get_device != nullptr && get_name != nullptr &&
                    get_device(&device, index) == 0 && get_name(name, sizeof name, device) == 0;
  dlclose(driver);
  return told ? name : "";
}

}  // namespace

std::string cpu_model() {
  return value_of("/proc/cpuinfo", "model name", ':');
}

std::string operating_system() {
  utsname kernel{};
  if (uname(&kernel) != 0) return {};
  const auto distribution = value_of("/etc/os-release", "PRETTY_NAME", '=');
  const auto name = std::string(kernel.sysname) + " " + kernel.release;
  return distribution.empty() ? name : distribution + ", " + name;
}

std::string cuda_runtime_version() {
  const auto version = at::Context::versionCUDART();  // 13010 for 13.1
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string gpu_names(int first, int count) {
  std::vector<std::pair<std::string, int>> kinds;
  for (int index = first; index < first + count; ++index) {
    const auto name = gpu_name(index);
    if (name.empty()) continue;
    if (kinds.empty() || kinds.back().first != name) kinds.emplace_back(name, 0);
    ++kinds.back().second;
  }
  std::string text;
  for (const auto& [name, number] : kinds) {
    if (!text.empty()) text += ", ";
    text += number == 1 ? name : std::to_string(number) + " × " + name;
  }
  return text;
}

}  // namespace deq::lab
