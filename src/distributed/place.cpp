#include "deq/distributed/place.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "deq/core/error.h"

namespace deq {
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

std::optional<int64_t> optional_number(const char* name) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  require<UsageError>(error == std::errc() && stop == end && value >= 0, name, " is \"", *text,
                      "\" in the environment; it must be a whole number, 0 or more");
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
         optional_number(kSlurm.rank).value_or(0) > 0;
}

bool speaks(const Launcher& launcher) {
  if (launcher.rank == kSlurm.rank) return slurm_started_us();
  return is_set(launcher.rank) || is_set(launcher.size);
}

/// Refuses a variable that is missing beside another of the same launcher.
int64_t number(const Launcher& launcher, const char* name) {
  const auto value = optional_number(name);
  const char* other =
      is_set(launcher.rank) && name != launcher.rank ? launcher.rank : launcher.size;
  require<UsageError>(value.has_value(), name, " is missing in the environment, where ",
                      is_set(other) ? other : launcher.local_rank, " is set; a launcher sets both");
  return *value;
}

/// srun can speak MPICH's language too: then its own variables say the same and more.
bool slurm_agrees(const WorldPlace& place) {
  return slurm_started_us() && optional_number(kSlurm.rank) == place.rank &&
         optional_number(kSlurm.size) == place.size;
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
    require<UsageError>(close != std::string::npos, "the list of nodes \"", list,
                        "\" in the environment has no closing bracket");
    node += list.substr(i + 1, list.find_first_of("-,]", i) - i - 1);
    i = close;
  }
  return node;
}

std::string address_of(const WorldPlace& place, const Launcher& launcher) {
  if (const auto address = variable("MASTER_ADDR")) return *address;
  if (slurm_agrees(place)) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (const auto list = variable(name)) return first_node(*list);
    }
    if (const auto address = variable("SLURM_LAUNCH_NODE_IPADDR")) return *address;
  }
  const bool one_machine =
      launcher.rank != kTorchrun.rank && optional_number(launcher.local_size) == place.size;
  require<UsageError>(one_machine, "MASTER_ADDR is missing in the environment: ", launcher.rank,
                      " and ", launcher.size,
                      " are set, but nothing says on which machine rank 0 runs");
  return "127.0.0.1";
}

/// One that all ranks of a job derive alike, and two jobs on one machine rarely share.
uint16_t port_for(const std::string& job) {
  uint32_t hash = 2166136261;  // FNV-1a: the same on every machine
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return static_cast<uint16_t>(kFirstDerivedPort + hash % kDerivedPorts);
}

uint16_t port_of(const WorldPlace& place, const Launcher& launcher) {
  if (const auto port = optional_number("MASTER_PORT")) {
    require<UsageError>(*port >= 1 && *port <= 65535, "MASTER_PORT is ", *port,
                        " in the environment; allowed: 1 to 65535");
    return static_cast<uint16_t>(*port);
  }
  require<UsageError>(launcher.rank != kTorchrun.rank,
                      "MASTER_PORT is missing in the environment, where RANK is set; a launcher "
                      "sets both");
  if (slurm_agrees(place) && is_set("SLURM_JOB_ID")) {
    return port_for(*variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID").value_or(""));
  }
  if (const auto job = variable("PMIX_NAMESPACE")) return port_for(*job);
  return kDefaultPort;
}

int64_t local_rank_of(const WorldPlace& place, const Launcher& launcher) {
  if (!is_set(launcher.local_rank) && slurm_agrees(place)) {
    return number(kSlurm, kSlurm.local_rank);
  }
  return number(launcher, launcher.local_rank);
}

WorldPlace place_of(const Launcher& launcher) {
  WorldPlace place;
  place.rank = number(launcher, launcher.rank);
  place.size = number(launcher, launcher.size);
  place.local_rank = local_rank_of(place, launcher);
  require<UsageError>(place.rank < place.size, launcher.rank, "=", place.rank,
                      " in the environment contradicts ", launcher.size, "=", place.size,
                      ": ranks count from 0");
  const auto local_size = optional_number(launcher.local_size).value_or(place.size);
  require<UsageError>(place.local_rank < std::min(local_size, place.size), launcher.local_rank, "=",
                      place.local_rank, " in the environment contradicts ",
                      local_size < place.size ? launcher.local_size : launcher.size, "=",
                      std::min(local_size, place.size), ": ranks count from 0");
  if (place.size == 1) return place;
  place.address = address_of(place, launcher);
  place.port = port_of(place, launcher);
  // torchrun's agent hosts the store unless it says otherwise.
  place.store_is_hosted = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  place.attempt = optional_number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  return place;
}

/// Several programs that each believe to be the whole world would overwrite one another's work.
void require_no_larger_world(const Launcher& chosen, int64_t size, const Launcher& other) {
  const auto others = optional_number(other.size);
  require<UsageError>(!speaks(other) || !others || *others <= size, chosen.size, "=", size,
                      " in the environment contradicts ", other.size, "=", others.value_or(0),
                      ": each of those processes would train by itself");
}

}  // namespace

WorldPlace place_from_environment() {
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
  auto place = place_of(**chosen);
  for (const auto* other = chosen + 1; other != std::end(kLaunchers); ++other) {
    require_no_larger_world(**chosen, place.size, **other);
  }
  return place;
}

}  // namespace deq
