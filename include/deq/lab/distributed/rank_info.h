#pragma once

#include <cstdint>
#include <string>

namespace deq::lab {

/// Who this process is among those that train together, and where they meet.
struct RankInfo {
  int64_t rank = 0;              ///< 0 <= rank < size
  int64_t size = 1;              ///< how many processes train together
  int64_t local_rank = 0;        ///< the rank among those on this machine: which GPU to take
  std::string address{};         ///< of the machine that hosts the store; empty for a world of one
  uint16_t port = 0;             ///< of the store
  bool store_is_hosted = false;  ///< by the launcher; otherwise rank 0 hosts it
  int64_t attempt = 0;           ///< how often the launcher has started this world before
};

/// What a launcher says in the environment; a world of one where nothing is said. In this order:
///   torchrun, deq --nproc   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
///   Open MPI                OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
///   MPICH, Intel MPI        PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
///   Slurm's srun            SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST
/// MASTER_ADDR and MASTER_PORT say for each of them where to meet; without them Slurm's processes
/// meet on the first node, MPI's on the one machine they share. A batch script outside of srun is a
/// world of one. Half-said or contradictory variables are a UsageError that names them.
RankInfo rank_from_environment();

}  // namespace deq::lab
