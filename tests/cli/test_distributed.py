"""Several processes train what one trains; when one is lost, all of them end and say so."""

import array
import contextlib
import json
import os
import pathlib
import signal
import socket
import unittest
import uuid

from program import CONFIG, HANGS, ProgramTest, exit_status, read_checkpoint, settings, wait_until

STEPS = 40
RECIPE = settings(
    train__batch_size=16, train__log_every=1, train__random_evals=2, train__eval_every_steps=10,
    train__checkpoints__every_steps=5, data__train_samples=256, data__valid_samples=32,
    jacobian__probability=0.7, jacobian__control__hold="residual", jacobian__control__target=1e-4,
    jacobian__control__every=5)
FINITE = [*RECIPE, *settings(train__steps=STEPS)]
ENDLESS = [*RECIPE, *settings(train__steps=1000000, train__eval_every_steps=1000000)]

# Ranks add up gradients in another order than one process does, so the trainings differ only by
# rounding, which forty steps of Adam amplify: 1e-15 becomes 1e-12, 1e-7 becomes 1e-5. A wrong average,
# sample or probe would show in the first or second digit.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
# These depend on the main rank's samples, on the longest solve of each rank, or on rounding itself.
OF_A_RANK = ("residual_p50", "residual_p90", "residual_p99", "nfe_forward", "adjoint_residual")


def processes_with(token):
    """The ids of living processes that were started with this text in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours
            if token.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def variable(process, name):
    with contextlib.suppress(OSError):
        for entry in pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            if entry.startswith(name.encode() + b"="):
                return entry.decode().split("=", 1)[1]
    return None


class DistributedTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.token = f"DEQ_TEST_TOKEN={uuid.uuid4()}"
        name, value = self.token.split("=")
        # Ranks on this machine meet over the loopback interface, whatever its host name resolves to.
        self.environment = {**os.environ, name: value, "GLOO_SOCKET_IFNAME": "lo"}
        self.addCleanup(self.assert_nobody_is_left)

    def assert_nobody_is_left(self):
        left = processes_with(self.token)
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.assertEqual(left, [])

    def in_processes(self, count, *arguments, status=0):
        return self.deq("train", *arguments, "--nproc", count, "--timeout", 20, status=status,
                        env=self.environment)

    def start_endless(self, count, out="run"):
        """A launcher whose ranks train until they are stopped; the ranks, by number."""
        launcher = self.start("train", CONFIG, *ENDLESS, "--out", out, "--nproc", count,
                              "--timeout", 5, env=self.environment)
        self.wait_for_steps(out)
        ranks = {int(variable(process, "RANK")): process
                 for process in processes_with(self.token) if process != launcher.pid}
        self.assertEqual(sorted(ranks), list(range(count)))
        return launcher, ranks

    def wait_for_steps(self, run, lines=12):
        metrics = self.folder / run / "metrics.jsonl"
        wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= lines, "metrics")

    def end_of(self, process):
        """Its status and standard error; nobody else may be left by then."""
        _, stderr = process.communicate(timeout=HANGS)
        self.assertEqual(processes_with(self.token), [], "outlived the launcher")
        self.assertNotIn("terminate called", stderr)
        return exit_status(process), stderr

    def assert_same_training(self, run, reference, precision):
        tolerance = TOLERANCE[precision]
        ours, theirs = self.weights(run), self.weights(reference)
        self.assertEqual(set(ours), set(theirs))
        for name, (dtype, shape, content) in ours.items():
            self.assertEqual((dtype, shape), theirs[name][:2])
            code = {"F64": "d", "F32": "f"}[dtype]
            values, expected = array.array(code, content), array.array(code, theirs[name][2])
            scale = max(1.0, *map(abs, expected))
            worst = max(abs(a - b) for a, b in zip(values, expected)) / scale
            # Gradients are sums of terms of both signs, whose rounding is relative to the terms: in float32
            # the optimiser's means of them agree to a digit less than the weights.
            loss_of_digits = 10 if precision == "float32" and name.startswith("optimiser/") else 1
            self.assertLess(worst, loss_of_digits * tolerance, name)
        self.assertEqual([path.name for path in self.checkpoints(run)],
                         [path.name for path in self.checkpoints(reference)])

    def assert_same_metrics(self, run, reference, precision):
        ours, theirs = self.metrics(run), self.metrics(reference)
        self.assertEqual([(line["step"], line["split"]) for line in ours],
                         [(line["step"], line["split"]) for line in theirs])
        for line, expected in zip(ours, theirs):
            self.assertEqual(set(line), set(expected))
            # Gamma, what it is made of, and traces follow residuals, whose own rounding is larger.
            for name in set(line) - set(OF_A_RANK) - {"split"}:
                own, wanted = (value if isinstance(value, list) else [value] for value in (line[name], expected[name]))
                self.assertEqual(len(own), len(wanted))
                for number, other in zip(own, wanted):
                    self.assertAlmostEqual(number / (other or 1), 1 if other else 0,
                                           delta=1e-7 if precision == "float64" else 0.05, msg=(line["step"], name))


class Parity(DistributedTest):
    def test_any_number_of_processes_trains_the_same_model(self):
        for precision in TOLERANCE:
            recipe = [*FINITE, "--set", f"precision={precision}", "--json"]
            one = f"one-{precision}"
            self.deq("train", CONFIG, *recipe, "--out", one)
            for count in (2, 4):
                with self.subTest(precision=precision, processes=count):
                    run = f"run-{count}-{precision}"
                    result = self.in_processes(count, CONFIG, *recipe, "--out", run)
                    self.assertEqual(json.loads(result.stdout)["run"], run)  # one object, of one rank
                    # All that there may be to say is that they are more than this machine's cores.
                    self.assertRegex(result.stderr, r"^(deq: warning: \d+ processes share .*\n)?$")
                    self.assert_same_training(run, one, precision)
                    self.assert_same_metrics(run, one, precision)

    def test_one_rank_writes(self):
        self.in_processes(3, CONFIG, *FINITE, "--set", "train.batch_size=18", "--out", "run")
        run = self.folder / "run"
        self.assertEqual(sorted(path.name for path in run.iterdir()),
                         ["checkpoints", "config.toml", "environment.json", "metrics.jsonl", "report.html",
                          "tensorboard"])
        self.assertEqual(len(list((run / "tensorboard").iterdir())), 1)
        self.assertEqual(sorted(path.name for path in (run / "checkpoints").iterdir()),
                         ["best.safetensors", "step-000000035.safetensors",
                          "step-000000040.safetensors"])
        steps = [line["step"] for line in self.metrics("run") if line["split"] == "train"]
        self.assertEqual(steps, list(range(1, STEPS + 1)))

    def test_accumulation_and_processes_share_the_batch_alike(self):
        recipe = [*FINITE, *settings(precision="float64"), "--json"]
        self.deq("train", CONFIG, *recipe, "--out", "one")
        self.in_processes(2, CONFIG, *recipe, "--set", "train.accumulation=4", "--out", "run")
        self.assert_same_training("run", "one", "float64")


class Resumption(DistributedTest):
    def stop_after_a_while(self, run, count):
        process = self.start("train", CONFIG, *FINITE, *settings(precision="float64", train__steps=400),
                             "--out", run, "--nproc", count, "--timeout", 20, env=self.environment)
        self.wait_for_steps(run)
        process.send_signal(signal.SIGTERM)
        status, stderr = self.end_of(process)
        self.assertEqual(status, 143, stderr)
        self.assertIn(f"deq train --resume {run}", stderr)
        self.assertLess(self.metrics(run)[-1]["step"], 400)

    def test_in_another_number_of_processes(self):
        self.deq("train", CONFIG, *FINITE, *settings(precision="float64", train__steps=400), "--out",
                 "one", "--json")
        for before, after in ((2, 1), (1, 2), (2, 4)):
            with self.subTest(before=before, after=after):
                run = f"run-{before}-{after}"
                self.stop_after_a_while(run, before)
                self.in_processes(after, "--resume", run, "--json")
                self.assert_same_training(run, "one", "float64")
                self.assertEqual([line["step"] for line in self.metrics(run)],
                                 [line["step"] for line in self.metrics("one")])


class Loss(DistributedTest):
    def test_a_killed_rank_takes_the_others_down_and_is_named(self):
        for count, killed in ((2, 0), (2, 1), (4, 2)):
            with self.subTest(count=count, killed=killed):
                run = f"run-{count}-{killed}"
                launcher, ranks = self.start_endless(count, run)
                os.kill(ranks[killed], signal.SIGKILL)
                status, stderr = self.end_of(launcher)
                self.assertEqual(status, 128 + signal.SIGKILL)
                self.assertIn(f"rank {killed} of {count}", stderr)
                for path in self.checkpoints(run):
                    read_checkpoint(path)
                self.deq("eval", run, "--json")

    def test_a_killed_launcher_leaves_nobody_behind(self):
        launcher, _ = self.start_endless(2)
        launcher.kill()
        launcher.communicate()
        wait_until(lambda: not processes_with(self.token), "the ranks to end")

    def test_signals_to_the_launcher_save_and_end_all(self):
        for sent in (signal.SIGTERM, signal.SIGINT):
            run = f"run-{sent}"
            launcher, _ = self.start_endless(2, run)
            launcher.send_signal(sent)
            status, stderr = self.end_of(launcher)
            self.assertEqual(status, 128 + sent, stderr)
            self.assertEqual(stderr.count(f"deq train --resume {run}\n"), 1, stderr)
            newest = self.metrics(run)[-1]["step"]
            self.assertEqual(self.checkpoints(run)[-1].name, f"step-{newest:09}.safetensors")


class ByHand(DistributedTest):
    def start_rank(self, rank, *arguments, timeout=20):
        """One of two."""
        variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": self.port}
        return self.start("train", CONFIG, *arguments, "--timeout", timeout, "--out", "run", "--json",
                          env={**self.environment, **{key: str(value) for key, value in variables.items()}})

    def setUp(self):
        super().setUp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def test_a_launchers_variables_are_enough(self):
        ranks = [self.start_rank(rank, *FINITE, *settings(precision="float64")) for rank in (1, 0)]
        for process in ranks:
            _, stderr = process.communicate(timeout=HANGS)
            self.assertEqual(process.returncode, 0, stderr)
        self.deq("train", CONFIG, *FINITE, *settings(precision="float64"), "--out", "one", "--json")
        self.assert_same_training("run", "one", "float64")

    def test_configurations_that_differ(self):
        ranks = [self.start_rank(rank, *FINITE, "--set", f"seed={7 + rank}") for rank in (0, 1)]
        for process in ranks:
            stdout, stderr = process.communicate(timeout=HANGS)
            self.assertEqual((process.returncode, stdout), (1, ""))
            self.assert_one_sentence(stderr)
            for part in ("configuration", "rank 1 of 2", "seed = 7", "seed = 8"):
                self.assertIn(part, stderr)

    def test_a_rank_that_never_comes(self):
        process = self.start_rank(0, *FINITE, timeout=2)
        _, stderr = process.communicate(timeout=HANGS)
        self.assertEqual(process.returncode, 1)
        self.assert_one_sentence(stderr)
        self.assertIn("rank 1 of 2", stderr)
        self.assertFalse((self.folder / "run").exists())


class Misuse(DistributedTest):
    def test_a_batch_that_cannot_be_shared(self):
        for arguments, said in ((["--nproc", 2, "--set", "train.batch_size=15"], "15"),
                                (["--nproc", 3], "16"),
                                (["--nproc", 2, "--set", "train.accumulation=5"], "accumulation"),
                                (["--set", "train.accumulation=5"], "accumulation")):
            message = self.refused("train", CONFIG, *FINITE, *arguments, "--out", "run",
                                   env=self.environment)
            self.assertIn("train.batch_size", message)
            self.assertIn(said, message)

    def test_a_number_of_processes_that_makes_no_sense(self):
        for count in ("0", "-1", "two"):
            result = self.deq("train", CONFIG, "--nproc", count, status=2)
            self.assertIn("--nproc", result.stderr)
            self.assertEqual(self.tree(), {})

    def test_half_a_launcher(self):
        for variables, said in (({"RANK": "0"}, "WORLD_SIZE"),
                                ({"WORLD_SIZE": "2"}, "RANK"),
                                ({"RANK": "2", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, "RANK=2"),
                                ({"RANK": "x", "WORLD_SIZE": "2"}, '"x"'),
                                ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                  "MASTER_ADDR": "127.0.0.1"}, "MASTER_PORT")):
            message = self.refused("train", CONFIG, *FINITE, "--out", "run",
                                   env={**self.environment, **variables})
            self.assertIn(said, message)


if __name__ == "__main__":
    unittest.main()
