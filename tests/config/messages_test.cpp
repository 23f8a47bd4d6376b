#include <gtest/gtest.h>

#include "deq/lab/base/errors.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/settings/synthetic.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::message_of;

/// The message for these lines, which stand from line 2 on, with these overrides.
std::string message(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return message_of<ConfigError>([&] {
    parse_config<SyntheticConfig>("experiment = \"synthetic\"\n" + lines, "x.toml", overrides);
  });
}

TEST(ConfigMessages, WholeNumbers) {
  EXPECT_EQ(message("[train]\nbatch_size = -3\n"),
            "x.toml:3: train.batch_size = -3: must be a whole number ≥ 1");
  EXPECT_EQ(message("[train]\nbatch_size = 64.0\n"),
            "x.toml:3: train.batch_size = 64.0: must be a whole number ≥ 1");
  EXPECT_EQ(message("[train]\nbatch_size = \"many\"\n"),
            "x.toml:3: train.batch_size = \"many\": must be a whole number ≥ 1");
  EXPECT_EQ(message("[train]\nbatch_size = true\n"),
            "x.toml:3: train.batch_size = true: must be a whole number ≥ 1");
  EXPECT_EQ(message("[train]\nbatch_size = [1]\n"),
            "x.toml:3: train.batch_size = […]: must be a whole number ≥ 1");
  EXPECT_EQ(message("[train.batch_size]\nx = 1\n"),
            "x.toml:2: train.batch_size = {…}: must be a whole number ≥ 1");
  EXPECT_EQ(message("[train]\nbatch_size = 2020-01-01\n"),
            "x.toml:3: train.batch_size = a date or time: must be a whole number ≥ 1");
  EXPECT_EQ(message("[solver.forward]\nstagnation_window = 9000000000\n"),
            "x.toml:3: solver.forward.stagnation_window = 9000000000: must be a whole number in "
            "[0, 100000]");
}

TEST(ConfigMessages, FiniteNumbers) {
  EXPECT_EQ(message("[train]\nlr = 0\n"), "x.toml:3: train.lr = 0: must be a finite number > 0");
  EXPECT_EQ(message("[train]\nlr = inf\n"),
            "x.toml:3: train.lr = inf: must be a finite number > 0");
  EXPECT_EQ(message("[data]\nx_min = nan\n"),
            "x.toml:3: data.x_min = nan: must be a finite number");
  EXPECT_EQ(message("[train]\nlr = \"1e-3\"\n"),
            "x.toml:3: train.lr = \"1e-3\": must be a finite number > 0");
  EXPECT_EQ(message("[jacobian]\nprobability = 1.5\n"),
            "x.toml:3: jacobian.probability = 1.5: must be a finite number in [0, 1]");
  EXPECT_EQ(message("[gradient]\nname = \"phantom\"\ntau = 0.0\n"),
            "x.toml:4: gradient.tau = 0.0: must be a finite number in (0, 1]");
  EXPECT_EQ(message("[solver.forward]\nname = \"newton-krylov\"\nforcing = 1\n"),
            "x.toml:4: solver.forward.forcing = 1: must be a finite number in [0, 1)");
}

TEST(ConfigMessages, FlagsAndNames) {
  EXPECT_EQ(message("[solver.forward]\nline_search = 1\n"),
            "x.toml:3: solver.forward.line_search = 1: must be true or false");
  EXPECT_EQ(message("[solver.forward]\nnorm = \"batch\"\n"),
            "x.toml:3: solver.forward.norm = \"batch\": must be \"per-sample\" or \"whole-batch\"");
  EXPECT_EQ(message("[solver.forward]\nname = \"newton\"\n"),
            "x.toml:3: solver.forward.name = \"newton\": must be one of \"picard\", \"anderson\", "
            "\"broyden\", \"limited-broyden\", \"newton-krylov\"");
  EXPECT_EQ(message("[solver.forward]\nname = 3\n"),
            "x.toml:3: solver.forward.name = 3: must be one of \"picard\", \"anderson\", "
            "\"broyden\", \"limited-broyden\", \"newton-krylov\"");
}

TEST(ConfigMessages, ASingleChoiceIsNamedAlone) {
  EXPECT_EQ(message_of<ConfigError>(
                [] { parse_config<SyntheticConfig>("experiment = \"vision\"\n", "x.toml"); }),
            "x.toml:1: experiment = \"vision\": must be \"synthetic\"");
}

TEST(ConfigMessages, Tables) {
  EXPECT_EQ(message("train = 3\n"), "x.toml:2: train = 3: must be a table");
}

TEST(ConfigMessages, TwoKeysThatDisagree) {
  EXPECT_EQ(message("[data]\nx_min = 1.0\nx_max = 1\n"),
            "x.toml:4: data.x_max = 1: must be above data.x_min = 1.0");
  EXPECT_EQ(message("[data]\nx_min = 5\n"),
            "x.toml:3: data.x_min = 5: must be below data.x_max = 2.0");
  EXPECT_EQ(message("[data]\nx_max = 1.0\n", {"data.x_min=3"}),
            "--set data.x_min=3: must be below data.x_max = 1.0");
}

TEST(ConfigMessages, UnknownKeys) {
  EXPECT_EQ(
      message("[train]\nepoch = 3\n"),
      "x.toml:3: unknown key \"train.epoch\"; did you mean \"train.epochs\"? (allowed: epochs, "
      "steps, batch_size, accumulation, lr, clip_norm, weight_average, start_noise, "
      "start_penalty, step_penalty, step_evals, random_evals, "
      "random_evals_on, eval_every, "
      "eval_every_steps, eval_budgets, log_every, optimiser, lr_schedule, pretrain, switch, "
      "loader, "
      "checkpoints, failure)");
  EXPECT_EQ(message("\n[trian]\nepochs = 3\n"),
            "x.toml:3: unknown key \"trian\"; did you mean \"train\"? (allowed: experiment, seed, "
            "precision, data, model, solver, gradient, jacobian, train)");
  EXPECT_EQ(message("[model]\nbatch_size = 3\n"),
            "x.toml:3: unknown key \"model.batch_size\"; did you mean \"train.batch_size\"? "
            "(allowed: hidden)");
  EXPECT_EQ(message("[model]\nquux = 3\n"),
            "x.toml:3: unknown key \"model.quux\" (allowed: hidden)");
  EXPECT_EQ(message("[model]\nquux = 3\n[data]\nnose = 1\n", {"zzz=1"}),
            "x.toml:3: unknown key \"model.quux\" (allowed: hidden)");
}

TEST(ConfigMessages, KeysOfAnotherMethod) {
  EXPECT_EQ(message("[solver.forward]\nbeta = 0.5\n"),
            "x.toml:3: solver.forward.beta = 0.5: this key goes with solver.forward.name = "
            "\"anderson\", not with \"broyden\" (whose own keys are: memory, line_search, "
            "bfloat16_steps)");
  EXPECT_EQ(message("[solver.adjoint]\nname = \"picard\"\nmemory = 5\n"),
            "x.toml:4: solver.adjoint.memory = 5: this key goes with solver.adjoint.name = one of "
            "\"anderson\", \"broyden\", \"limited-broyden\", not with \"picard\" (whose own keys "
            "are: damping)");
  EXPECT_EQ(message("[gradient]\nsteps = 5\n"),
            "x.toml:3: gradient.steps = 5: this key goes with gradient.name = one of \"phantom\", "
            "\"unrolled\", \"reversible\", not with \"implicit\" (which has no keys of its own)");
  EXPECT_EQ(message("[solver.forward]\nline_search = true\n", {"solver.forward.name=anderson"}),
            "x.toml:3: solver.forward.line_search = true: this key goes with solver.forward.name = "
            "\"broyden\", not with \"anderson\" (whose own keys are: memory, beta, ridge, "
            "ridge_scale, restart_factor)");
}

TEST(ConfigMessages, Schedules) {
  EXPECT_EQ(message("[jacobian]\ngamma = -1\n"),
            "x.toml:3: jacobian.gamma = -1: must be a finite number ≥ 0");
  EXPECT_EQ(message("[jacobian.gamma]\nvalue = 1\n"),
            "x.toml:2: missing key \"jacobian.gamma.schedule\", which must be one of \"constant\", "
            "\"linear\", \"staircase\"");
  EXPECT_EQ(
      message("[jacobian]\ngamma = { schedule = \"linear\", from = 1, begin = 0, end = 9 }\n"),
      "x.toml:3: missing key \"jacobian.gamma.to\", which must be a finite number ≥ 0");
  EXPECT_EQ(message("[jacobian.gamma]\nschedule = \"constant\"\nvalue = 1\nevery = 3\n"),
            "x.toml:5: jacobian.gamma.every = 3: this key goes with jacobian.gamma.schedule = "
            "\"staircase\", not with \"constant\" (whose own keys are: value)");
  EXPECT_EQ(
      message("[jacobian.probability]\nschedule = \"linear\"\nfrom = 0\nto = 1\nbegin = 9\n"
              "end = 8\n"),
      "x.toml:7: jacobian.probability.end = 8: must be at least jacobian.probability.begin = 9");
  EXPECT_EQ(message("[jacobian.gamma]\nschedule = \"constant\"\nvalue = 1\nstop = -1\n"),
            "x.toml:5: jacobian.gamma.stop = -1: must be a whole number ≥ 0");
  EXPECT_EQ(message("[jacobian.gamma]\nshedule = \"constant\"\n"),
            "x.toml:3: unknown key \"jacobian.gamma.shedule\"; did you mean "
            "\"jacobian.gamma.schedule\"? (allowed: schedule, value, from, to, begin, end, start, "
            "increment, every, stop)");
}

TEST(ConfigMessages, TheExperiment) {
  const auto with = [](const std::string& toml) {
    return message_of<ConfigError>([&] { parse_config<SyntheticConfig>(toml, "x.toml"); });
  };
  EXPECT_EQ(with("seed = 1\n"),
            "x.toml: missing key \"experiment\", which must be one of \"synthetic\", \"vision\", "
            "\"language\", \"segmentation\", \"reasoning\"");
  EXPECT_EQ(with("\nexperiment = \"sculpture\"\n[marble]\n"),
            "x.toml:2: experiment = \"sculpture\": must be one of \"synthetic\", \"vision\", "
            "\"language\", \"segmentation\", \"reasoning\"");
  EXPECT_EQ(message_of<ConfigError>([] { experiment_in("experiment = 1\n", "x.toml"); }),
            "x.toml:1: experiment = 1: must be one of \"synthetic\", \"vision\", \"language\", "
            "\"segmentation\", \"reasoning\"");
}

TEST(ConfigMessages, SyntaxErrorsNameTheirLine) {
  const std::string text = message("[train]\nepochs = \n");
  EXPECT_EQ(text.substr(0, 27), "x.toml:3: not valid TOML: E") << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(message("seed = 1\nseed = 2\n").substr(0, 26), "x.toml:3: not valid TOML: ");
}

TEST(ConfigMessages, KeysOfVeryManyParts) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  const std::string complaint = "not valid TOML: a key of more than 32 parts";
  EXPECT_EQ(message("seed = 1\n" + key + " = 1\n"), "x.toml:3: " + complaint);
  EXPECT_EQ(message("[" + key + "]\nb = 1\n"), "x.toml:2: " + complaint);
  EXPECT_EQ(message("\"a\" . " + key + " = 1\n"), "x.toml:2: " + complaint);
  EXPECT_EQ(message("seed = { " + key + " = 1 }\n"), "x.toml:2: " + complaint);
  const std::string of_override = message("", {key + "=1"});
  EXPECT_EQ(of_override.substr(0, 11), "--set \"a.a.");
  EXPECT_LT(of_override.size(), 200U);
  // Dots that part no keys.
  EXPECT_NO_THROW(parse_config<SyntheticConfig>(
      "experiment = \"synthetic\" # " + std::string(99, '.') + "\n# '''" + std::string(99, '.') +
          "\n[train]\neval_budgets = [1, 2, 3]\n",
      "x.toml"));
}

TEST(ConfigMessages, LettersBeyondAscii) {
  EXPECT_EQ(message("[train]\népoques = 3\n"),
            "x.toml:3: not valid TOML: a letter beyond ASCII outside of quotes and comments");
  EXPECT_EQ(message("seed = \u3000 1\n"),
            "x.toml:2: not valid TOML: a letter beyond ASCII outside of quotes and comments");
  for (const std::string word : {"2x'", "2x['", "2x{{\"", "[1, 2.'", "[\n2'", "[[1],2'"}) {
    EXPECT_TRUE(message("seed = " + word + "\uFEF7\n")
                    .ends_with(": not valid TOML: a quote in the middle of a word"))
        << word;
  }
  EXPECT_EQ(message("seed = 2='\uFEF7\n"),
            "x.toml:2: not valid TOML: a = inside of a value; is a bracket before it not closed?");
  for (const std::string between : {"", "\n", " \n\t"}) {
    EXPECT_TRUE(message("seed = \"\"\"\\" + between + "\uFEF7\"\"\"\n")
                    .ends_with("a letter beyond ASCII after a backslash, which is not supported"));
  }
  EXPECT_EQ(message("[train]\neval_budgets = [1, 2\nlr = 3\n"),
            "x.toml:4: not valid TOML: a = inside of a value; is a bracket before it not closed?");
  EXPECT_TRUE(message("precision = \"float\nseed = 1\n").starts_with("x.toml:2: not valid TOML: "));
  // Where they may be: in comments, in texts of all four kinds, and after a mark of the byte order.
  for (const std::string text :
       {R"("é\"é")", R"('é\')", "\"\"\"é\"\"é\n\"\"\"\"\"", "'''é''é\n'''''", "\"\uFEF7\"",
        R"('\é')", "\"\"\"\\\ne é\"\"\""}) {
    const std::string complaint = message("# é '\nseed = " + text + " # é \"\n");
    EXPECT_TRUE(complaint.ends_with(": must be a whole number ≥ 0")) << complaint;
  }
  EXPECT_NO_THROW(
      parse_config<SyntheticConfig>("\ufeffexperiment = \"synthetic\" # é\n", "x.toml"));
}

TEST(ConfigMessages, Files) {
  const test::TemporaryFolder folder;
  const std::string name = folder.path().string();
  EXPECT_EQ(message_of<ConfigError>([&] { load_config<SyntheticConfig>(folder / "none.toml"); }),
            "cannot read " + name + "/none.toml: No such file or directory");
  EXPECT_EQ(message_of<ConfigError>([&] { experiment_of(folder.path()); }),
            "cannot read " + name + ": Is a directory");
}

TEST(ConfigMessages, Overrides) {
  EXPECT_EQ(message("", {"train.epochs=abc"}),
            "--set train.epochs=abc: must be a whole number in [1, 1e+09]");
  EXPECT_EQ(message("", {"train.epoch=3"}),
            "--set train.epoch=3: unknown key \"train.epoch\"; did you mean \"train.epochs\"? "
            "(allowed: epochs, steps, batch_size, accumulation, lr, clip_norm, weight_average, "
            "start_noise, start_penalty, step_penalty, step_evals, random_evals, "
            "random_evals_on, eval_every, eval_every_steps, eval_budgets, log_every, optimiser, "
            "lr_schedule, pretrain, switch, loader, checkpoints, failure)");
  const std::string span =
      "must be a whole number n ≥ 0, for [-n, n], or a list [low, high] of two "
      "in [-1e+09, 1e+09]";
  for (const std::string wrong : {"-1", "[1, -1]", "[1]", "[0, 1, 2]", "\"two\"", "0.5"}) {
    EXPECT_EQ(message("", {"train.random_evals=" + wrong}),
              "--set train.random_evals=" + wrong + ": " + span);
  }
  EXPECT_EQ(message("", {"train.eval_budgets=[1, 0]"}),
            "--set train.eval_budgets=[1, 0]: must be a list of whole numbers ≥ 1");
  EXPECT_EQ(message("[train]\neval_budgets = [1, 2.5]\n"),
            "x.toml:3: train.eval_budgets = […]: must be a list of whole numbers ≥ 1");
  EXPECT_EQ(message("[train]\neval_budgets = 3\n"),
            "x.toml:3: train.eval_budgets = 3: must be a list of whole numbers ≥ 1");
  EXPECT_EQ(message("", {"solver.forward.beta=1"}),
            "--set solver.forward.beta=1: this key goes with solver.forward.name = \"anderson\", "
            "not with \"broyden\" (whose own keys are: memory, line_search, bfloat16_steps)");
  EXPECT_EQ(
      message("", {"jacobian.gamma={schedule=\"constant\", value=-1}"}),
      "--set jacobian.gamma={schedule=\"constant\", value=-1}: jacobian.gamma.value = -1: must "
      "be a finite number ≥ 0");
  EXPECT_EQ(message("seed = 7\n", {"seed.x=3"}), "--set seed.x=3: seed = 7 is not a table");
  EXPECT_EQ(message("", {"seed.x=3"}), "--set seed.x=3: seed = {…}: must be a whole number ≥ 0");
  EXPECT_EQ(message("", {"train=3"}), "--set train=3: must be a table");
}

TEST(ConfigMessages, MalformedOverrides) {
  for (const std::string text : {"train.epochs", "=3", ".=3", "train..epochs=3", "", " =3"}) {
    EXPECT_EQ(message("", {text}),
              "--set " + text + ": must look like key=value, such as train.epochs=10");
  }
}

}  // namespace
}  // namespace deq::lab
