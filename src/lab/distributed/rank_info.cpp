#include "deq/lab/distributed/rank_info.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "core/require.h"
#include "deq/lab/base/errors.h"

namespace deq::lab {
namespace {

constexpr uint16_t kDefaultPort = 29500;                              // torchrun's
constexpr uint16_t kFirstDerivedPort = 15000, kDerivedPorts = 15000;  // below the ephemeral ones

/// A variable that is set to nothing says nothing.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool is_set(const char* name) {
  return variable(name).has_value();
}

std::optional<int64_t> optional_variable(const char* name) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  require<UsageError>(error == std::errc() && stop == end && value >= 0,
                      "{} is \"{}\" in the environment; it must be a whole number, 0 or more", name,
                      *text);
  return value;
}

struct Launcher {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr Launcher kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Launcher kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Launcher kMpich{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Launcher kSlurm{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""};

/// Outside of srun the variables describe the allocation, in which this process is alone.
bool slurm_started_us() {
  return is_set("SLURM_STEP_ID") || is_set("SLURM_STEPID") ||
         optional_variable(kSlurm.rank).value_or(0) > 0;
}

bool speaks(const Launcher& launcher) {
  if (launcher.rank == kSlurm.rank) return slurm_started_us();
  return is_set(launcher.rank) || is_set(launcher.size);
}

/// Refuses a variable that is missing beside another of the same launcher.
int64_t number_from(const Launcher& launcher, const char* name) {
  const auto value = optional_variable(name);
  const char* other =
      is_set(launcher.rank) && name != launcher.rank ? launcher.rank : launcher.size;
  require<UsageError>(value.has_value(),
                      "{} is missing in the environment, where {} is set; a launcher sets both",
                      name, is_set(other) ? other : launcher.local_rank);
  return *value;
}

/// srun can speak MPICH's language too: then its own variables say the same and more.
bool slurm_agrees(const RankInfo& self) {
  return slurm_started_us() && optional_variable(kSlurm.rank) == self.rank &&
         optional_variable(kSlurm.size) == self.size;
}

/// "gpu[003-010,012],cpu1" is gpu003 and more.
std::string first_node(const std::string& list) {
  std::string node;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      node += list[i];
      continue;
    }
    const auto close = list.find(']', i);
    require<UsageError>(close != std::string::npos,
                        "the list of nodes \"{}\" in the environment has no closing bracket", list);
    node += list.substr(i + 1, list.find_first_of("-,]", i) - i - 1);
    i = close;
  }
  return node;
}

std::string address_of(const RankInfo& self, const Launcher& launcher) {
  if (const auto address = variable("MASTER_ADDR")) return *address;
  if (slurm_agrees(self)) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (const auto list = variable(name)) return first_node(*list);
    }
    if (const auto address = variable("SLURM_LAUNCH_NODE_IPADDR")) return *address;
  }
  const bool one_machine =
      launcher.rank != kTorchrun.rank && optional_variable(launcher.local_size) == self.size;
  require<UsageError>(one_machine,
                      "MASTER_ADDR is missing in the environment: {} and {} are set, but nothing "
                      "says on which machine rank 0 runs",
                      launcher.rank, launcher.size);
  return "127.0.0.1";
}

/// One that all ranks of a job derive alike, and two jobs on one machine rarely share.
uint16_t port_for(const std::string& job) {
  uint32_t hash = 2166136261;  // FNV-1a: the same on every machine
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return static_cast<uint16_t>(kFirstDerivedPort + hash % kDerivedPorts);
}

uint16_t port_of(const RankInfo& self, const Launcher& launcher) {
  if (const auto port = optional_variable("MASTER_PORT")) {
    require<UsageError>(*port >= 1 && *port <= 65535,
                        "MASTER_PORT is {} in the environment; allowed: 1 to 65535", *port);
    return static_cast<uint16_t>(*port);
  }
  require<UsageError>(launcher.rank != kTorchrun.rank,
                      "MASTER_PORT is missing in the environment, where RANK is set; a launcher "
                      "sets both");
  if (slurm_agrees(self) && is_set("SLURM_JOB_ID")) {
    return port_for(*variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID").value_or(""));
  }
  if (const auto job = variable("PMIX_NAMESPACE")) return port_for(*job);
  return kDefaultPort;
}

int64_t local_rank_of(const RankInfo& self, const Launcher& launcher) {
  if (!is_set(launcher.local_rank) && slurm_agrees(self)) {
    return number_from(kSlurm, kSlurm.local_rank);
  }
  return number_from(launcher, launcher.local_rank);
}

RankInfo rank_of(const Launcher& launcher) {
  RankInfo self;
  self.rank = number_from(launcher, launcher.rank);
  self.size = number_from(launcher, launcher.size);
  self.local_rank = local_rank_of(self, launcher);
  require<UsageError>(self.rank < self.size,
                      "{}={} in the environment contradicts {}={}: ranks count from 0",
                      launcher.rank, self.rank, launcher.size, self.size);
  const auto local_size = optional_variable(launcher.local_size).value_or(self.size);
  require<UsageError>(self.local_rank < std::min(local_size, self.size),
                      "{}={} in the environment contradicts {}={}: ranks count from 0",
                      launcher.local_rank, self.local_rank,
                      local_size < self.size ? launcher.local_size : launcher.size,
                      std::min(local_size, self.size));
  if (self.size == 1) return self;
  self.address = address_of(self, launcher);
  self.port = port_of(self, launcher);
  // torchrun's agent hosts the store unless it says otherwise.
  self.store_is_hosted = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  self.attempt = optional_variable("TORCHELASTIC_RESTART_COUNT").value_or(0);
  return self;
}

/// Several programs that each believe they are the whole world would overwrite one another's work.
void require_no_larger_world(const Launcher& chosen, int64_t size, const Launcher& other) {
  const auto others = optional_variable(other.size);
  require<UsageError>(
      !speaks(other) || !others || *others <= size,
      "{}={} in the environment contradicts {}={}: each of those processes would train by itself",
      chosen.size, size, other.size, others.value_or(0));
}

}  // namespace

RankInfo rank_from_environment() {
  require<UsageError>(!is_set("LOCAL_RANK") || speaks(kTorchrun),
                      "RANK and WORLD_SIZE are missing in the environment, where LOCAL_RANK is "
                      "set; a launcher sets them all");
  constexpr const Launcher* kLaunchers[] = {&kTorchrun, &kOpenMpi, &kMpich, &kSlurm};
  const auto* const chosen = std::find_if(std::begin(kLaunchers), std::end(kLaunchers),
                                          [](const auto* launcher) { return speaks(*launcher); });
  if (chosen == std::end(kLaunchers)) {
    require<UsageError>(!is_set("PMIX_RANK"),
                        "PMIX_RANK is set in the environment, but nothing says how many processes "
                        "there are; set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT");
    return {};
  }
  auto self = rank_of(**chosen);
  for (const auto* other = chosen + 1; other != std::end(kLaunchers); ++other) {
    require_no_larger_world(**chosen, self.size, **other);
  }
  return self;
}

}  // namespace deq::lab
