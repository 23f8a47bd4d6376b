#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace deq::test {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Sets variables, and unsets those that begin like a launcher's, until it goes out of scope.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const auto equals = text.find('=');
      before_[text.substr(0, equals)] = text.substr(equals + 1);
    }
    for (const auto& [name, value] : before_) {
      for (const char* start : {"RANK", "LOCAL_", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI_", "PMIX_",
                                "MPI_", "SLURM_", "TORCHELASTIC_"}) {
        if (name.starts_with(start)) unsetenv(name.c_str());
      }
    }
    for (const auto& [name, value] : variables) {
      set_.push_back(name);
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& name : set_) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
  std::vector<std::string> set_;
};

}  // namespace deq::test
