#include "lab/reproduce/results.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/source_folder.h"

namespace deq::lab::reproduce {
namespace {

const Member kPlain{.name = "plain", .run = "run", .label = "Plain"};
const Member kStopped{.name = "stopped", .run = "run", .label = "Stopped", .stopped = 2};

/// An equilibrium model, trained with 6 evaluations.
RunResults solved() {
  RunResults run{.own_budget = 6};
  for (int64_t step = 1; step <= 3; ++step) {
    run.train.push_back({{"step", step},
                         {"seconds", 10.0 * static_cast<double>(step)},
                         {"samples_per_s", step == 3 ? 5.0 : 100.0 + static_cast<double>(step)}});
  }
  run.valid = {{{"step", int64_t{2}}, {"accuracy", 50.0}, {"nfe_forward", 6.0}},
               {{"step", int64_t{3}}, {"accuracy", 81.26}, {"nfe_forward", 6.0}}};
  run.summary = {.parameters = 10'300'000,
                 .evaluations = {{{"budget", int64_t{2}}, {"accuracy", 70.0}, {"seconds", 1.0}},
                                 {{"budget", int64_t{6}}, {"accuracy", 81.26}, {"seconds", 3.0}}}};
  return run;
}

/// An explicit network.
RunResults direct() {
  RunResults run{.own_budget = 6};
  run.train = {{{"step", int64_t{3}}, {"seconds", 15.0}}};
  run.valid = {{{"step", int64_t{3}}, {"accuracy", 78.0}}};
  return run;
}

Exhibit exhibit() {
  return {.members = {kPlain, kStopped, {.name = "net", .run = "net", .label = "Net"}},
          .plots = {{.title = "A", .y = "accuracy", .split = "valid"},
                    {.title = "B", .x = "budget", .y = "accuracy"},
                    {.title = "C", .y = "accuracy", .kind = PlotKind::Bars},
                    {.title = "D", .y = "nothing"}},
          .tables = {{.title = "T",
                      .baseline = "net",
                      .columns = {{"parameters", "size"},
                                  {"accuracy", "accuracy"},
                                  {"relative.train.seconds", "time"}}}}};
}

TEST(Results, ANameSaysWhereItsNumberIsFrom) {
  const auto run = solved();
  EXPECT_EQ(run.value("accuracy", kPlain), 81.26);
  EXPECT_EQ(run.value("accuracy", kStopped), 70);
  EXPECT_EQ(run.value("accuracy@2", kPlain), 70);
  EXPECT_EQ(run.value("eval.seconds", kPlain), 3);
  EXPECT_EQ(run.value("eval.seconds", kStopped), 1);
  EXPECT_EQ(run.value("train.seconds", kPlain), 30);
  EXPECT_EQ(run.value("train.samples_per_s", kPlain), 101);  // the median, not the last
  EXPECT_EQ(run.value("parameters", kPlain), 10'300'000);
  EXPECT_TRUE(std::isnan(run.value("accuracy@3", kPlain)));
  EXPECT_TRUE(std::isnan(run.value("rho", kPlain)));
  EXPECT_TRUE(std::isnan(RunResults{}.value("accuracy", kPlain)));
}

TEST(Results, OnlyWhatIsShownIsEvaluated) {
  auto what = exhibit();
  EXPECT_EQ(needed_budgets(what, "run", solved()), std::vector<int64_t>{2});
  EXPECT_TRUE(needed_budgets(what, "net", direct()).empty());
  what.budgets = {1, 4};
  EXPECT_EQ(needed_budgets(what, "run", solved()), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_TRUE(needed_budgets(what, "net", direct()).empty());
  what.plots[0].y = "eval.samples_per_s";
  EXPECT_EQ(needed_budgets(what, "run", solved()), (std::vector<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(needed_budgets(what, "net", direct()), std::vector<int64_t>{6});
}

TEST(Results, TablesAndFigures) {
  auto failed = direct();
  failed.summary.failure = "training stopped";
  const Results results{{"run", solved()}, {"net", failed}};
  const auto tables = tables_of(exhibit(), results);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(plain_text(tables[0]),
            "T\n"
            "                   size  accuracy   time\n"
            "  Plain           10.3M      81.3  2.00×\n"
            "  Stopped         10.3M      70.0  2.00×\n"
            "  Net (diverged)      0      78.0  1.00×\n");
  EXPECT_EQ(markdown(tables[0]),
            "**T**\n\n"
            "|  | size | accuracy | time |\n"
            "|---|---:|---:|---:|\n"
            "| Plain | 10.3M | 81.3 | 2.00× |\n"
            "| Stopped | 10.3M | 70.0 | 2.00× |\n"
            "| Net (diverged) | 0 | 78.0 | 1.00× |\n");
  const auto figures = figures_of(exhibit(), results);
  ASSERT_EQ(figures.size(), 3U);  // none where nothing was measured
  ASSERT_EQ(figures[0].series.size(), 2U);
  EXPECT_EQ(figures[0].series[0].x, (std::vector<double>{2, 3}));
  ASSERT_EQ(figures[1].series.size(), 1U);
  EXPECT_EQ(figures[1].series[0].x, (std::vector<double>{2, 6}));
  EXPECT_EQ(figures[1].series[0].y, (std::vector<double>{70, 81.26}));
  EXPECT_EQ(figures[2].series.size(), 3U);
  const auto rows = rows_of(exhibit(), results);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(text(rows[1], "label"), "Stopped");
  EXPECT_EQ(number(rows[1], "accuracy"), 70);
  EXPECT_EQ(number(rows[0], "relative.train.seconds"), 2);
  EXPECT_EQ(text(rows[2], "failure"), "training stopped");
}

TEST(Results, RowsThatAreNotHereStandUnderTheTableOfAll) {
  const Results results{{"run", solved()}, {"net", direct()}};
  auto what = exhibit();
  what.not_here = {{.label = "Large", .why = "too large"}, {.label = "Old", .why = "lost"}};
  EXPECT_EQ(tables_of(what, results).at(0).caption, "Not here: Large – too large; Old – lost.");
  what.tables[0].caption = "All runs.";
  const auto tables = tables_of(what, results);
  EXPECT_EQ(tables.at(0).caption, "All runs. Not here: Large – too large; Old – lost.");
  EXPECT_TRUE(markdown(tables[0]).ends_with("| 1.00× |\n\n" + tables[0].caption + "\n"));
  what.tables[0].only = {"net"};
  EXPECT_EQ(tables_of(what, results).at(0).caption, "All runs.");
}

TEST(Results, ABarEndsNoCellOfMarkdown) {
  const ReportTable table{
      .title = "|J|", .columns = {"|∂f/∂z|"}, .rows = {{.label = "a|b", .cells = {"1|2"}}}};
  EXPECT_EQ(markdown(table), "**|J|**\n\n|  | \\|∂f/∂z\\| |\n|---|---:|\n| a\\|b | 1\\|2 |\n");
  EXPECT_EQ(plain_text(table), "|J|\n       |∂f/∂z|\n  a|b      1|2\n");
}

TEST(Results, OlderRunsCountTheirValidationsAsTraining) {
  const auto run = read_results(kSource / "tests/fixtures/run-folders/synthetic");
  ASSERT_FALSE(run.train.empty());
  EXPECT_EQ(run.value("train.train_seconds", kPlain), run.value("train.seconds", kPlain));
}

}  // namespace
}  // namespace deq::lab::reproduce
