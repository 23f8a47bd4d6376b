#include "lab/reproduce/exhibit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/rng.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/settings/language.h"
#include "deq/lab/tasks/experiment.h"
#include "io/temporary_folder.h"
#include "lab/networks/language_network.h"

namespace deq::lab::reproduce {
namespace {

using deq::test::message_of;
using deq::test::TemporaryFolder;

const std::filesystem::path kRecipes = std::filesystem::path(DEQ_SOURCE_DIR) / "configs/reproduce";

constexpr const char* kExhibit = R"(title = "Figure 9"
about = "What it shows."

[runs.second]
label = "B"

[runs.first]
label = "A"

[runs.hurried]
run = "first"
label = "A, stopped"
stopped = 3
from = "books"

[plots.loss]
title = "Loss"
y = "loss"
only = "first"

[tables.end]
title = "End"
baseline = "first"

[tables.end.columns]
zeta = "Z"
"relative.alpha" = "A"

[not_here]
"Z, large" = "too large"
"C" = "its data is lost"
)";

/// The exhibit of this text.
Exhibit exhibit_of(const std::string& text) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "fig9.toml", text);
  return read_exhibit(folder.path(), "fig9");
}

std::string with(const std::string& line, const std::string& other) {
  std::string text = kExhibit;
  text.replace(text.find(line), line.size(), other);
  return text;
}

std::string refusal(const std::string& text) {
  return message_of<ConfigError>([&] { exhibit_of(text); });
}

TEST(Exhibit, IsReadInTheOrderOfItsFile) {
  const auto exhibit = exhibit_of(kExhibit);
  ASSERT_EQ(exhibit.members.size(), 3U);
  EXPECT_EQ(exhibit.members[0].name, "second");
  EXPECT_EQ(exhibit.members[0].run, "second");
  EXPECT_EQ(exhibit.members[2].run, "first");
  EXPECT_EQ(exhibit.members[2].stopped, 3);
  EXPECT_EQ(exhibit.tables.at(0).columns, (std::vector<std::pair<std::string, std::string>>{
                                              {"zeta", "Z"}, {"relative.alpha", "A"}}));
  const auto members = shown(exhibit, exhibit.plots.at(0).only);
  ASSERT_EQ(members.size(), 1U);
  EXPECT_EQ(members[0].label, "A");
  EXPECT_EQ(label_of(exhibit, "first"), "A");
  EXPECT_EQ(absences(exhibit),
            (std::vector<std::string>{"Z, large – too large", "C – its data is lost"}));
}

TEST(Exhibit, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_TRUE(
      refusal(with("label = \"B\"", ""))
          .ends_with("fig9.toml:4: missing key \"label\", which must be a text that is not empty"));
  EXPECT_TRUE(refusal(with("y = \"loss\"", "y = 3")).find("fig9.toml:18: y = 3: must be") !=
              std::string::npos);
  EXPECT_NE(refusal(with("stopped = 3", "stoped = 3")).find("did you mean \"stopped\"?"),
            std::string::npos);
  EXPECT_NE(refusal(with("only = \"first\"", "only = \"third\"")).find("names \"third\""),
            std::string::npos);
  EXPECT_NE(refusal(with("baseline = \"first\"", "")).find("needs the key baseline"),
            std::string::npos);
  EXPECT_NE(refusal(with("zeta = \"Z\"", "zeta = 1")).find("the column's heading"),
            std::string::npos);
  EXPECT_NE(refusal(with("y = \"loss\"", "y = \"loss\"\nsplit = \"test\"")).find("\"valid\""),
            std::string::npos);
  EXPECT_NE(refusal("title = \"x\"\nabout = \"y\"\n").find("[runs.NAME]"), std::string::npos);
  EXPECT_NE(refusal("runs = 3\n").find("must be a table"), std::string::npos);
  EXPECT_TRUE(refusal(with("\"its data is lost\"", "7"))
                  .ends_with("fig9.toml:31: not_here.\"C\" = 7: must be the reason"));
  EXPECT_TRUE(refusal(with("\"too large\"", "\"\""))
                  .ends_with("fig9.toml:30: not_here.\"Z, large\" = \"\": must be the reason"));
  EXPECT_NE(refusal(with("[not_here]", "[nothere]")).find("unknown key \"nothere\""),
            std::string::npos);
}

TEST(Exhibit, HasTheMembersOfItsScale) {
  const auto exhibit = exhibit_of(kExhibit);
  Catalogue catalogue{.runs = {{.name = "first"}, {.name = "second"}}};
  const auto small = at_scale(exhibit, catalogue);
  EXPECT_EQ(small.members.size(), 2U);
  EXPECT_EQ(absences(small),
            (std::vector<std::string>{"Z, large – too large", "C – its data is lost",
                                      "A, stopped – from scale books on"}));
  catalogue.scale = Scale::Books;
  const auto books = at_scale(exhibit, catalogue);
  EXPECT_EQ(books.members.size(), 3U);
  EXPECT_EQ(absences(books), absences(exhibit));
  catalogue.runs.pop_back();
  EXPECT_EQ(message_of<ConfigError>([&] { at_scale(exhibit, catalogue); }),
            "runs-books.toml: missing the table [runs.second], which fig9 needs");
  auto large = exhibit;
  for (auto& member : large.members) member.from = Scale::Paper;
  EXPECT_EQ(message_of<UsageError>([&] { at_scale(large, catalogue); }),
            "fig9 has no recipe at scale books, only at larger ones");
}

TEST(Exhibit, AnEarlyStopHasTheEvaluationsOfAnotherRun) {
  const auto evaluations = [](const std::string& name, Scale scale,
                              const std::vector<std::string>& overrides = {}) {
    const auto exhibit =
        at_scale(read_exhibit(kRecipes, name), read_catalogue(kRecipes, scale), overrides);
    const auto found = std::ranges::find(exhibit.members, "post-ln-stopped", &Member::name);
    return found->stopped.value_or(0);
  };
  for (const std::string name : {"table1", "table5"}) {
    EXPECT_EQ(evaluations(name, Scale::Small), 8);
    EXPECT_EQ(evaluations(name, Scale::Books), 12);
    EXPECT_EQ(evaluations(name, Scale::Long), 12);
    EXPECT_EQ(evaluations(name, Scale::Paper), 12);
  }
  EXPECT_EQ(evaluations("table1", Scale::Small, {"solver.forward.max_evals=5"}), 5);
  const auto lost = exhibit_of(with("stopped = 3\nfrom = \"books\"", "stopped_like = \"third\""));
  EXPECT_EQ(message_of<ConfigError>([&] {
              at_scale(lost, {.runs = {{.name = "first"}, {.name = "second"}}});
            }),
            "runs-small.toml: missing the table [runs.third], which fig9 needs");
  EXPECT_NE(refusal(with("stopped = 3", "stopped = 3\nstopped_like = \"first\""))
                .find("hurried has both stopped and stopped_like"),
            std::string::npos);
}

TEST(Exhibit, TheSmallTransformersAreOfOneSize) {
  const auto catalogue = read_catalogue(kRecipes, Scale::Small);
  const auto parameters = [&catalogue](const std::string& run) {
    const auto* source = catalogue.find(run);
    const auto config = load_config<LanguageConfig>(source->config, source->overrides);
    const auto network =
        make_language_network(config.model, config.data.max_words.value(), random_stream(0, 0));
    int64_t count = 0;
    for (const auto& parameter : network->module().parameters()) count += parameter.numel();
    return static_cast<double>(count);
  };
  EXPECT_NEAR(parameters("transformer-xl") / parameters("post-ln-jr"), 1, 0.1);
}

// Else a table would rank rates and lengths, not networks. The published settings differ by row.
TEST(Exhibit, TheNetworksOfATableTrainAlike) {
  for (const auto scale : {Scale::Small, Scale::Books, Scale::Long}) {
    const auto catalogue = read_catalogue(kRecipes, scale);
    const auto load = [&catalogue](const std::string& run) {
      const auto* source = catalogue.find(run);
      return load_config<LanguageConfig>(source->config, source->overrides);
    };
    const auto alike = load("transformer-xl");
    for (const char* table : {"table1", "table5"}) {
      for (const auto& member : at_scale(read_exhibit(kRecipes, table), catalogue).members) {
        SCOPED_TRACE(fmt::format("{} at scale {}", member.run, name(scale)));
        const auto config = load(member.run);
        EXPECT_EQ(config.train.lr, alike.train.lr);
        EXPECT_EQ(config.train.steps, alike.train.steps);
        EXPECT_EQ(config.train.epochs, alike.train.epochs);
        EXPECT_EQ(config.train.batch_size * config.data.segment,
                  alike.train.batch_size * alike.data.segment);
      }
    }
  }
}

TEST(Exhibit, AnUnknownOneListsThoseThereAre) {
  EXPECT_EQ(message_of<UsageError>([] { read_exhibit(kRecipes, "fig2"); }),
            "there is no recipe \"fig2\"; there are: fig1, fig3, fig5, fig6, fig7, fig8, fig10, "
            "table1, table2, table3, table5");
}

// Each recipe at each scale names runs that exist, whose configurations can be read.
TEST(Exhibit, EveryRecipeOfTheProjectIsWhole) {
  for (const auto& scale : kScales) {
    const auto catalogue = read_catalogue(kRecipes, scale.value);
    std::set<std::string> used;
    for (const auto& name : exhibit_names(kRecipes)) {
      const auto exhibit = at_scale(read_exhibit(kRecipes, name), catalogue);
      EXPECT_FALSE(exhibit.tables.empty()) << name;
      EXPECT_FALSE(exhibit.plots.empty()) << name;
      for (const auto& member : exhibit.members) used.insert(member.run);
    }
    for (const auto& run : catalogue.runs) {
      const auto experiment = read_experiment(run.config, run.overrides);
      const auto data = experiment.name == "vision"
                            ? (run.data == Data::Cifar10 || run.data == Data::ImageNet)
                        : experiment.name == "language" ? run.data == Data::Text
                                                        : run.data == Data::None;
      EXPECT_TRUE(data) << scale.name << ": " << run.name;
      EXPECT_TRUE(used.contains(run.name)) << scale.name << ": nothing uses " << run.name;
    }
  }
}

TEST(Catalogue, OverridesAreThoseOfTheCommandLine) {
  const auto catalogue = read_catalogue(kRecipes, Scale::Small);
  const auto* run = catalogue.find("synthetic-gamma-4");
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->overrides, std::vector<std::string>{"jacobian.gamma=4"});
  EXPECT_EQ(catalogue.find("nothing"), nullptr);
  const TemporaryFolder folder;
  const std::string head = "machine = \"m\"\ncosts = \"c\"\n[runs.a]\nminutes = 1\n";
  const auto said = [&](const std::string& text) {
    write_file_atomically(folder / "runs-small.toml", head + text);
    return message_of<ConfigError>([&] { read_catalogue(folder.path(), Scale::Small); });
  };
  const std::string memory = "memory_gib = 1\n";
  EXPECT_NE(said(memory).find("missing key \"config\""), std::string::npos);
  EXPECT_NE(said(memory + "config = \"a\"\nset = { \"x\" = [1] }\n").find("must be a number"),
            std::string::npos);
  EXPECT_NE(said(memory + "config = \"a\"\ndata = \"mnist\"\n").find("\"cifar10\""),
            std::string::npos);
}

}  // namespace
}  // namespace deq::lab::reproduce
