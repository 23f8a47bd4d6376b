#include "deq/lab/distributed/rank_info.h"

#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "distributed/environment.h"

namespace deq::lab {
namespace {

using test::Variables;

RankInfo rank_info_in(const Variables& variables) {
  const test::Environment environment(variables);
  return rank_from_environment();
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) {
    std::erase_if(variables, [&key = name](const auto& entry) { return entry.first == key; });
    variables.emplace_back(name, value);
  }
  return variables;
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "node7"},
                          {"MASTER_PORT", "29400"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kMpich{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm{{"SLURM_PROCID", "9"},         {"SLURM_NTASKS", "16"},
                       {"SLURM_LOCALID", "1"},        {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_ID", "123456"},    {"SLURM_STEP_NODELIST", "gpu[003-010,12],x1"},
                       {"SLURM_JOB_NODELIST", "gpu1"}};

TEST(RankInfoTest, IsAWorldOfOneWhereNothingIsSaid) {
  const auto self = rank_info_in({});
  EXPECT_EQ(self.rank, 0);
  EXPECT_EQ(self.size, 1);
  EXPECT_EQ(self.address, "");
  EXPECT_EQ(rank_info_in({{"RANK", ""}, {"MASTER_ADDR", "node7"}}).size, 1);
}

TEST(RankInfoTest, OfTorchrun) {
  const auto self = rank_info_in(kTorchrun);
  EXPECT_EQ(self.rank, 5);
  EXPECT_EQ(self.size, 8);
  EXPECT_EQ(self.local_rank, 1);
  EXPECT_EQ(self.address, "node7");
  EXPECT_EQ(self.port, 29400);
  EXPECT_FALSE(self.store_is_hosted);
  const auto again = rank_info_in(with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(again.store_is_hosted);
  EXPECT_EQ(again.attempt, 2);
}

TEST(RankInfoTest, OfOpenMpi) {
  const auto self = rank_info_in(kOpenMpi);
  EXPECT_EQ(self.rank, 3);
  EXPECT_EQ(self.size, 4);
  EXPECT_EQ(self.local_rank, 3);
  EXPECT_EQ(self.address, "127.0.0.1");
  EXPECT_EQ(self.port, 29500);
  const auto far = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}, {"MASTER_ADDR", "node7"}});
  EXPECT_EQ(rank_info_in(far).address, "node7");
  const auto job = rank_info_in(with(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-1"}}));
  EXPECT_NE(job.port, rank_info_in(with(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-2"}})).port);
}

TEST(RankInfoTest, OfMpich) {
  const auto self = rank_info_in(with(kMpich, {{"MASTER_PORT", "1234"}}));
  EXPECT_EQ(self.rank, 1);
  EXPECT_EQ(self.size, 2);
  EXPECT_EQ(self.local_rank, 1);
  EXPECT_EQ(self.address, "127.0.0.1");
  EXPECT_EQ(self.port, 1234);
}

TEST(RankInfoTest, OfSlurm) {
  const auto self = rank_info_in(kSlurm);
  EXPECT_EQ(self.rank, 9);
  EXPECT_EQ(self.size, 16);
  EXPECT_EQ(self.local_rank, 1);
  EXPECT_EQ(self.address, "gpu003");
  EXPECT_GE(self.port, 15000);
  EXPECT_LT(self.port, 30000);
  EXPECT_EQ(self.port, rank_info_in(with(kSlurm, {{"SLURM_PROCID", "3"}})).port);
  EXPECT_NE(self.port, rank_info_in(with(kSlurm, {{"SLURM_JOB_ID", "123457"}})).port);
  EXPECT_EQ(rank_info_in(with(kSlurm, {{"SLURM_STEP_NODELIST", "r[1-2]n[08,9]"}})).address,
            "r1n08");
  EXPECT_EQ(rank_info_in(with(kSlurm, {{"SLURM_STEP_NODELIST", ""}})).address, "gpu1");
  EXPECT_EQ(rank_info_in(with(kSlurm, {{"SLURM_STEP_NODELIST", ""},
                                       {"SLURM_JOB_NODELIST", ""},
                                       {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.3"}}))
                .address,
            "10.0.0.3");
}

TEST(RankInfoTest, OfSlurmInTheLanguageOfMpich) {
  const auto self = rank_info_in(with(kSlurm, {{"PMI_RANK", "9"}, {"PMI_SIZE", "16"}}));
  EXPECT_EQ(self.local_rank, 1);
  EXPECT_EQ(self.address, "gpu003");
}

TEST(RankInfoTest, OfABatchScriptIsAWorldOfOne) {
  EXPECT_EQ(rank_info_in({{"SLURM_NTASKS", "1"}, {"SLURM_JOB_ID", "5"}}).size, 1);
  EXPECT_EQ(
      rank_info_in({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}).size, 1);
}

TEST(RankInfoTest, OfTorchrunUnderSlurmIsTorchruns) {
  auto slurm = with(kSlurm, {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(rank_info_in(with(slurm, kTorchrun)).rank, 5);
}

struct Misuse {
  const char* name;
  Variables variables;
  std::vector<std::string> named;  ///< in the message
};

void PrintTo(const Misuse& misuse, std::ostream* out) {
  *out << misuse.name;
}

class RankInfoMisuse : public testing::TestWithParam<Misuse> {};

TEST_P(RankInfoMisuse, IsNamed) {
  try {
    rank_info_in(GetParam().variables);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    for (const auto& name : GetParam().named) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
          << name << " in: " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Environments, RankInfoMisuse,
    ::testing::Values(
        Misuse{"SizeAlone", {{"WORLD_SIZE", "4"}}, {"RANK is missing", "WORLD_SIZE is set"}},
        Misuse{"RankAlone", {{"RANK", "1"}}, {"WORLD_SIZE is missing", "RANK is set"}},
        Misuse{"LocalRankAlone", {{"LOCAL_RANK", "1"}}, {"RANK and WORLD_SIZE", "LOCAL_RANK"}},
        Misuse{"NoLocalRank", with(kTorchrun, {{"LOCAL_RANK", ""}}), {"LOCAL_RANK is missing"}},
        Misuse{"NoAddress", with(kTorchrun, {{"MASTER_ADDR", ""}}), {"MASTER_ADDR is missing"}},
        Misuse{"NoPort", with(kTorchrun, {{"MASTER_PORT", ""}}), {"MASTER_PORT is missing"}},
        Misuse{
            "PortTooLarge", with(kTorchrun, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT", "70000"}},
        Misuse{"NotANumber", with(kTorchrun, {{"RANK", "one"}}), {"RANK", "\"one\""}},
        Misuse{"Negative", with(kTorchrun, {{"RANK", "-1"}}), {"RANK", "\"-1\""}},
        Misuse{"RankTooLarge", with(kTorchrun, {{"RANK", "8"}}), {"RANK=8", "WORLD_SIZE=8"}},
        Misuse{"LocalRankTooLarge",
               with(kTorchrun, {{"LOCAL_RANK", "4"}}),
               {"LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4"}},
        Misuse{"OpenMpiHalfSaid",
               with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", ""}}),
               {"OMPI_COMM_WORLD_SIZE is missing", "OMPI_COMM_WORLD_RANK is set"}},
        Misuse{"OpenMpiOnTwoMachines",
               with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}}),
               {"MASTER_ADDR is missing"}},
        Misuse{"MpichHalfSaid", {{"PMI_RANK", "0"}}, {"PMI_SIZE is missing"}},
        Misuse{
            "SlurmHalfSaid", with(kSlurm, {{"SLURM_LOCALID", ""}}), {"SLURM_LOCALID is missing"}},
        Misuse{
            "SlurmNodesUnclosed", with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu[1-2"}}), {"gpu[1-2"}},
        Misuse{"PmixAlone", {{"PMIX_RANK", "1"}}, {"PMIX_RANK"}},
        Misuse{"WorldOfOneInALargerOne",
               with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}),
               {"WORLD_SIZE=1", "OMPI_COMM_WORLD_SIZE=4"}}),
    [](const auto& misuse) { return misuse.param.name; });

}  // namespace
}  // namespace deq::lab
