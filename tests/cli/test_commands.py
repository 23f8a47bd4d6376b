"""The program used as documented: runs, evaluations, reports."""

import contextlib
import json
import os
import pty
import re
import resource
import signal
import subprocess
import unittest

from program import CONFIG, HANGS, SHORT, SOURCE, ProgramTest, settings

SUBCOMMANDS = ("train", "eval", "predict", "data", "demo", "report", "reproduce", "convert", "bench", "doctor")


class Help(ProgramTest):
    def test_version_is_that_of_the_build(self):
        version = re.search(r"project\(deq VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.deq("--version").stdout.strip(), f"deq {version}")

    def test_help_names_every_subcommand_and_each_has_its_own(self):
        text = self.deq("--help").stdout
        for name in SUBCOMMANDS:
            self.assertIn(name, text)
            self.assertIn("Usage: deq " + name, self.deq(name, "--help").stdout)


class Train(ProgramTest):
    def test_a_run_folder_holds_everything(self):
        result = self.train("some/new/run")
        run = self.folder / "some/new/run"
        for name in ("config.toml", "metrics.jsonl", "checkpoints/step-000000008.safetensors",
                     "checkpoints/best.safetensors", "report.html"):
            self.assertTrue((run / name).is_file(), name)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["split"] for line in lines], ["train", "valid"])
        self.assertEqual(len(list((run / "tensorboard").iterdir())), 1)
        last = lines[-1]
        for name in ("mse", "slope", "rho", "jacobian_norm", "residual", "nfe_forward",
                     "nfe_to_1e-3.picard", "nfe_to_1e-6.broyden"):
            self.assertEqual(result[name], last[name], name)
        self.assertEqual(result["run"], "some/new/run")

    def test_the_effective_configuration_gives_the_same_run(self):
        self.train("first", "--set", "jacobian.gamma=3", "--set", "seed=5")
        self.deq("train", "first/config.toml", "--out", "second", "--json")
        self.assertEqual(self.weights("first"), self.weights("second"))

    def test_another_seed_gives_another_run(self):
        self.assertNotEqual(self.train("a")["mse"], self.train("b", "--set", "seed=1")["mse"])

    def test_every_solver_and_gradient_trains(self):
        for solver in ("picard", "anderson", "broyden", "limited-broyden", "newton-krylov"):
            result = self.train(f"run-{solver}", "--set", f"solver.forward.name={solver}", "--set",
                                f"solver.adjoint.name={solver}")
            self.assertLess(result["mse"], 20, solver)
        for gradient in ("truncated", "jacobian-free", "phantom", "unrolled", "reversible"):
            result = self.train(f"run-{gradient}", "--set", f"gradient.name={gradient}")
            self.assertLess(result["mse"], 20, gradient)
        shine = ("--set", "solver.forward.name=broyden", "--set", "gradient.name=shine")
        for refined in ("false", "true"):
            result = self.train(f"run-shine-{refined}", *shine, "--set", f"gradient.refined={refined}")
            self.assertLess(result["mse"], 20, refined)

    def test_shine_without_a_forward_solve_by_broyden_is_refused_in_one_sentence(self):
        message = self.refused("train", CONFIG, *SHORT, "--out", "run", "--set", "solver.forward.name=anderson",
                               "--set", "gradient.name=shine")
        self.assertIn("by broyden builds; this one, by anderson, builds none", message)

    def test_a_folder_is_chosen_where_none_is_given(self):
        for expected in ("runs/synthetic", "runs/synthetic-2"):
            result = json.loads(self.deq("train", CONFIG, *SHORT, "--json").stdout)
            self.assertEqual(result["run"], expected)

    def test_a_trace_of_some_steps(self):
        traced = self.deq("train", CONFIG, *SHORT, *settings(train__batch_size=4), "--out", "run", "--json", "--trace", "steps.json")
        self.assertEqual(traced.stderr, "")  # the profiler's own lines are no errors
        names = {event["name"] for event in json.loads((self.folder / "steps.json").read_text())["traceEvents"]}
        self.assertIn("deq::observe", names)  # a solver's pass
        short = self.deq("train", CONFIG, *SHORT, "--out", "short", "--trace", "none.json")
        self.assertIn("ended before there was a step to trace", short.stderr)
        self.assertFalse((self.folder / "none.json").exists())

    def test_a_trace_that_finds_no_room(self):
        def little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

        (self.folder / "steps.json").write_text("mine")
        result = self.deq("train", CONFIG, *SHORT, *settings(train__batch_size=4), "--out", "run", "--json", "--trace",
                          "steps.json", status=1, preexec_fn=little_room)
        self.assertEqual(result.stderr, "deq: cannot write the trace steps.json\n")
        self.assertEqual((self.folder / "steps.json").read_text(), "mine")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"steps.json", "run"})

    def test_a_trace_begins_after_the_last_step_that_may_be_unrolled(self):
        # 60 steps after 32, of which about 16 are unrolled.
        blended = settings(train__steps=90, train__pretrain__steps=2, train__switch__steps=30, train__switch__blended="true")
        result = self.deq("train", CONFIG, *SHORT, *blended, "--out", "run", "--trace", "none.json")
        self.assertIn("ended before there was a step to trace", result.stderr)
        self.assertFalse((self.folder / "none.json").exists())

    def test_plain_lines_where_there_is_no_terminal(self):
        result = self.deq("train", CONFIG, *SHORT, "--out", "run")
        self.assertNotIn("\033", result.stderr)
        self.assertNotIn("\r", result.stderr)
        self.assertIn("run: epoch 2  step 8/8  mse", result.stderr)
        self.assertIn("report: run/report.html", result.stdout)


    def test_a_bar_on_a_terminal_without_an_estimate_at_first(self):
        screen, terminal = pty.openpty()
        self.addCleanup(os.close, screen)
        process = subprocess.Popen(
            [os.environ["DEQ_BINARY"], "train", CONFIG, *SHORT, *settings(train__batch_size=1), "--out", "run"],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # that the other end is closed
            while part := os.read(screen, 65536):
                shown += part
        self.assertEqual(process.wait(timeout=HANGS), 0, shown)
        first, *others = re.findall(r"\[[#.]+\] (\S+)  solving  (.*?)(?=\r)", shown.decode())
        self.assertEqual(first[0], "1/512")
        self.assertTrue(first[1].startswith("loss"), first)
        self.assertTrue(others)
        for count, facts in others:
            self.assertRegex(facts, r"^\S+ steps/s  \d+:\d\d left", count)


class Eval(ProgramTest):
    def test_what_one_evaluation_cannot_tell(self):
        self.train()
        header, *rows = self.deq("eval", "run", "--budgets", "1,2").stdout.splitlines()
        table = [dict(zip(header.split(), row.split())) for row in rows]
        self.assertEqual(table[0]["rho"], "-")
        self.assertGreater(float(table[1]["rho"]), 0)
        first, second = map(json.loads, self.deq("eval", "run", "--budgets", "1,2", "--json").stdout.splitlines())
        for name in ("rho", "jacobian_norm", "path_distance"):
            self.assertNotIn(name, first)
            self.assertIn(name, second)

    def test_what_was_not_measured_is_a_dash(self):
        # Newton-Krylov's products are evaluations after which there is no residual.
        self.train()
        text = self.deq("eval", "run", "--set", "solver.forward.name=newton-krylov").stdout
        trace = re.search(r"^residual_trace +(.*)$", text, re.MULTILINE)[1].split()
        self.assertIn("–", trace)
        for entry in trace:
            self.assertRegex(entry, r"^(–|[0-9.e+-]+)$")

    def test_measures_what_training_measured_last(self):
        trained = self.train()
        evaluated, cost = self.evaluate("run")
        for name, value in evaluated.items():
            self.assertEqual(trained[name], value, name)
        self.assertGreater(cost["samples_per_s"], 0)
        self.assertIn("mse", self.deq("eval", "run").stdout)


class Report(ProgramTest):
    def test_several_runs_on_one_page_that_loads_nothing(self):
        self.train("a")
        self.train("b", "--set", "jacobian.gamma=4")
        result = self.deq("report", "a", "b", "--out", "both.html", "--title", "A </script> title", "--json")
        self.assertEqual(json.loads(result.stdout), {"report": "both.html"})
        page = (self.folder / "both.html").read_text()
        data = json.loads(re.search(r'id="deq-data">(.*?)</script>', page, re.DOTALL)[1])
        self.assertEqual([run["gamma"] for run in data["runs"]], ["1", "4"])
        self.assertEqual(data["title"], "A </script> title")
        for run in data["runs"]:
            self.assertEqual(len(run["slices"]), 3)
            surface = run["surface"]
            self.assertEqual(len(surface["f"]), len(surface["z"]))
            self.assertEqual(len(surface["f"][0]), len(surface["x"]))
        slope_below, slope_above = data["figure4"]
        self.assertAlmostEqual(slope_below["picard"][-1], slope_below["z_star"], places=3)
        self.assertGreater(abs(slope_above["picard"][-1] - slope_above["z_star"]), 0.1)
        self.assertAlmostEqual(slope_above["broyden"][-1], slope_above["z_star"], places=5)
        without_plotly = page.replace(page[page.index("plotly.js v"):page.rindex("deq-data")], "")
        self.assertNotRegex(without_plotly, r'(src|href)\s*=\s*"(https?:)?//')


class Demo(ProgramTest):
    def test_the_papers_findings(self):
        lines = self.deq("demo", "--out", "demo", "--json").stdout.splitlines()
        runs = [json.loads(line) for line in lines]
        self.assertEqual(len(runs), 4)
        for run in runs:
            self.assertLess(run["mse"], 0.02)  # the target's variance is 3.7, the noise's 0.0025
        for name in ("slope", "rho", "nfe_to_1e-3.picard", "nfe_to_1e-6.picard"):
            values = [run[name] for run in runs]
            self.assertEqual(values, sorted(values, reverse=True), name)
        self.assertLess(runs[-1]["slope"], 0.25 * runs[0]["slope"])
        self.assertLess(runs[-1]["nfe_to_1e-3.picard"], 0.5 * runs[0]["nfe_to_1e-3.picard"])
        self.assertLess(runs[-1]["nfe_to_1e-3.broyden"], runs[0]["nfe_to_1e-3.broyden"])
        self.assertTrue((self.folder / "demo/report.html").is_file())


class Bench(ProgramTest):
    def test_a_model_s_numbers_are_consistent(self):
        self.deq("bench", "mdeq", "--preset", "cifar-tiny", "--batch", "2", "--repeats", "1", "--inference", "2",
                 "--forward", "2", "--adjoint", "2", "--json", "numbers.json", "--trace", "trace.json")
        numbers = json.loads((self.folder / "numbers.json").read_text())
        # The published count of this model's layer is 68.6 million multiplications per image.
        self.assertAlmostEqual(numbers["flops_of_f"] / (2 * 2 * 68.6e6), 1, delta=0.005)
        # A convolution alone reads and writes 24 channels of 2 images.
        self.assertGreater(numbers["bytes_of_f"], 2 * 2 * 24 * 32 * 32 * 4)
        self.assertAlmostEqual(numbers["bytes_per_s"] * 1e-3 * numbers["evaluation_ms"] / numbers["bytes_of_f"], 1)
        self.assertGreater(numbers["inference_ms"], 0)
        self.assertAlmostEqual(numbers["term_ratio"], numbers["step_with_term_ms"] / numbers["step_ms"])
        self.assertIn("traceEvents", json.loads((self.folder / "trace.json").read_text()))

    def test_a_model_of_another_size(self):
        few = ("--batch", "2", "--repeats", "1", "--inference", "2", "--forward", "2", "--adjoint", "2")
        tiny = ("bench", "mdeq", "--preset", "cifar-tiny", *few, "--json", "numbers.json")
        flops = {}
        for name, sizes in {"": (), "narrow": ("--channels", "12", "--groups", "4"), "small": ("--size", "16")}.items():
            text = self.deq(*tiny, *sizes).stdout
            flops[name] = json.loads((self.folder / "numbers.json").read_text())["flops_of_f"]
        self.assertIn("24, 24 channels, 2 images of 16×16", text)
        self.assertAlmostEqual(flops["narrow"] / flops[""], 1 / 4, delta=0.001)
        self.assertAlmostEqual(flops["small"] / flops[""], 1 / 4, delta=0.001)
        self.assertIn("groups", self.refused(*tiny, "--channels", "12", "--groups", "5"))
        self.assertIn("must be a multiple of 2", self.refused(*tiny, "--size", "33"))
        for option, most in (("--channels", 65536), ("--batch", 65536), ("--size", 8192)):
            for size in (most + 1, 2**61):
                message = self.deq(*tiny, option, size, status=2).stderr
                self.assertIn(f"{option}: must be at most {most}, not {size}", message)
        self.assertIn("must be a whole number above zero", self.deq(*tiny, "--size", "0", status=2).stderr)

    def explicit(self, *arguments):
        text = self.deq("bench", "explicit", *arguments, "--repeats", "1", "--json", "numbers.json").stdout
        return text, json.loads((self.folder / "numbers.json").read_text())

    def test_an_explicit_network(self):
        text, numbers = self.explicit("resnet18", "--batch", "2", "--set", "data.image_size=16")
        self.assertTrue(text.startswith("resnet18, batch_size 2, image_size 16, classes 10, cpu"), text)
        self.assertEqual(numbers["parameters"], 11_173_962)
        for key in ("inference_ms", "inference_mib", "step_ms", "step_mib"):
            self.assertGreater(numbers[key], 0)
        self.assertIn("training step", text)

    def test_an_explicit_language_model(self):
        sizes = {"layers": 1, "d_model": 8, "d_embed": 8, "heads": 2, "d_head": 4, "d_inner": 16, "cutoffs": "[]"}
        settings = [f"--set=model.{key}={value}" for key, value in sizes.items()]
        text, numbers = self.explicit("transformer-xl", "--batch", "3", *settings, "--set", "data.segment=5", "--set",
                                      "data.memory=6", "--set", "data.max_words=40")
        self.assertIn("batch_size 3, segment 5, memory 6, words 40", text)
        self.assertEqual([numbers[key] for key in ("batch_size", "segment", "memory", "words")], [3, 5, 6, 40])
        self.assertGreater(numbers["step_ms"], 0)

    def test_what_no_explicit_network_is(self):
        said = self.refused("bench", "explicit", "resnet19")
        self.assertEqual(said, 'there is no explicit network "resnet19"; there are: resnet18, resnet101, densenet121, '
                               'inception-v2, transformer-xl, awd-qrnn, relational-memory, gpt2')
        self.assertIn('unknown key "model.width"', self.refused("bench", "explicit", "resnet18", "--set", "model.width=3"))
        self.assertIn("must be a whole number above zero, not 0",
                      self.deq("bench", "explicit", "resnet18", "--batch", "0", status=2).stderr)
        self.assertIn("NAME", self.deq("bench", "explicit", status=2).stderr)

    def test_solvers(self):
        text = self.deq("bench", "solvers", "--batch", "2", "--dim", "100", "--repeats", "1", "--json", "numbers.json").stdout
        numbers = json.loads((self.folder / "numbers.json").read_text())
        for name in ("picard", "anderson", "broyden"):
            self.assertIn(name, text)
        # At the least f reads z and x and writes, and g = f − z and the next iterate are made.
        self.assertGreaterEqual(numbers["picard"]["evaluation_bytes"], 8 * 2 * 100 * 4)
        self.assertGreater(numbers["broyden"]["evaluation_bytes"], numbers["picard"]["evaluation_bytes"])


class Doctor(ProgramTest):
    def test_tells_versions_and_devices(self):
        facts = json.loads(self.deq("doctor", "--json").stdout)
        self.assertTrue(facts["libtorch"].startswith("2.11"))
        self.assertIn(facts["cuda"], ("available", "not available"))
        if facts["cuda"] == "not available":
            self.assertIn("cuda_reason", facts)
        self.assertIn(facts["libtorch"], self.deq("doctor").stdout)
        checked = json.loads(self.deq("doctor", "--device", "cpu", "--json").stdout)
        self.assertEqual(checked["replay"], "not used on the CPU")
        self.assertIn("moon", self.deq("doctor", "--device", "moon", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
