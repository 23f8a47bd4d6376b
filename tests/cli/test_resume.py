"""Runs that are killed, interrupted, damaged or out of space go on to the same bits."""

import collections
import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from program import CONFIG, HANGS, SEED, ProgramTest, exit_status, read_checkpoint, settings, wait_until

STEPS = 60
# Everything that has a state or draws numbers: an adaptive gamma, the penalty's coin and probes,
# budgets that vary, random starts. A checkpoint every two steps, so that kills often meet one being written.
COMMON = settings(
    train__steps=STEPS, train__batch_size=16, train__log_every=3, train__random_evals=2,
    train__eval_every_steps=13, train__checkpoints__every_steps=2, data__train_samples=256,
    data__valid_samples=32, jacobian__probability=0.7, jacobian__control__hold="residual",
    jacobian__control__target=1e-4, jacobian__control__every=5)
RECIPES = {
    "plain": [],
    "pretrained": settings(train__pretrain__steps=20, train__pretrain__gamma=0.5,
                           train__clip_norm=1.0),
    "sgd": settings(train__optimiser__name="sgd", train__lr=1e-5, train__accumulation=2,
                    train__loader__workers=2, train__start_noise=0.5, jacobian__power_steps=1,
                    jacobian__control__hold="rho", jacobian__control__target=0.3),
}


def command(recipe, out):
    return ["train", CONFIG, *COMMON, *RECIPES[recipe], "--out", out]


def in_pairs(work, items):
    """Two at a time; the first exception goes on to the caller."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, items))


@contextlib.contextmanager
def about(**what):
    """Says in a failure what it was about; unlike subTest, on any thread."""
    try:
        yield
    except AssertionError as failure:
        raise AssertionError(f"DEQ_TEST_SEED={SEED} {what}: {failure}") from failure


class ResumeTest(ProgramTest):
    def undisturbed(self, recipe="plain"):
        out = f"undisturbed-{recipe}"
        if not (self.folder / out).exists():
            self.deq(*command(recipe, out), "--json")
        return out

    def assert_same_run(self, run, reference):
        """The same tensors in the same files, the same metrics, and nothing beside them."""
        run, reference = self.folder / run, self.folder / reference
        self.assertEqual([path.name for path in self.checkpoints(run)],
                         [path.name for path in self.checkpoints(reference)])
        for name in (self.checkpoints(reference)[-1].name, "best.safetensors"):
            self.assertEqual(read_checkpoint(run / "checkpoints" / name)[0],
                             read_checkpoint(reference / "checkpoints" / name)[0], name)
        self.assertEqual(self.metrics(run), self.metrics(reference))
        self.assertEqual((run / "config.toml").read_bytes(),
                         (reference / "config.toml").read_bytes())
        self.assertTrue((run / "report.html").is_file())
        self.assertEqual([path for path in run.rglob("*")
                          if path.name.startswith(".") or "tmp" in path.name], [])

    def resume(self, run):
        return self.deq("train", "--resume", run, "--json")


class Kills(ResumeTest):
    def wait_for_a_moment(self, process, run, rng):
        """Some random moment: while it starts, or when a random part of the metrics is written."""
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.4))
            return
        size = rng.uniform(0, 1) * self.whole_size
        metrics = self.folder / run / "metrics.jsonl"
        wait_until(lambda: process.poll() is not None or
                   (metrics.exists() and metrics.stat().st_size >= size), "metrics")
        time.sleep(rng.uniform(0, 0.02))

    def kill_and_resume(self, index):
        rng = random.Random(f"{SEED}/{index}")
        recipe = rng.choice(sorted(RECIPES))
        run = f"run-{index}"
        arguments = command(recipe, run)
        outcomes = []
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            process = self.start(*arguments)
            self.wait_for_a_moment(process, run, rng)
            process.kill()
            _, complaints = process.communicate()
            outcomes.append("finished" if process.returncode == 0 else "killed")
            self.assertIn(process.returncode, (0, -signal.SIGKILL), (index, complaints))
            if not (self.folder / run / "checkpoints").exists():
                outcomes[-1] = "killed before there was anything to resume"
                refusal = self.deq("train", "--resume", run, status=2).stderr
                self.assert_one_sentence(refusal)
                self.assertIn(run, refusal)
                shutil.rmtree(self.folder / run, ignore_errors=True)
            else:
                arguments = ["train", "--resume", run]
        self.deq(*arguments, "--json")
        with about(index=index, recipe=recipe, outcomes=outcomes):
            self.assert_same_run(run, f"undisturbed-{recipe}")
        shutil.rmtree(self.folder / run)
        return outcomes

    def test_fifty_kills_at_random_moments_lose_nothing(self):
        self.whole_size = max(
            (self.folder / self.undisturbed(recipe) / "metrics.jsonl").stat().st_size
            for recipe in RECIPES)
        outcomes = collections.Counter(
            outcome for many in in_pairs(self.kill_and_resume, range(50)) for outcome in many)
        with about(outcomes=dict(outcomes)):
            self.assertGreater(outcomes["killed"], 30)  # otherwise little was tested

    def test_a_kill_between_a_best_checkpoint_and_its_second_name(self):
        self.deq(*command("plain", "reference"), "--set", "train.checkpoints.keep=1000", "--json")
        shutil.copytree(self.folder / "reference", self.folder / "run")
        best_step = min((line["mse"], line["step"]) for line in self.metrics("run")
                        if line["split"] == "valid")[1]
        for path in self.checkpoints("run"):
            if path.name > f"step-{best_step:09}.safetensors":
                path.unlink()
        (self.folder / "run/checkpoints/best.safetensors").unlink()
        self.resume("run")
        self.assert_same_run("run", "reference")

    def test_what_a_kill_left_half_written_is_cleared_away(self):
        reference = self.undisturbed()
        shutil.copytree(self.folder / reference, self.folder / "run")
        run = self.folder / "run"
        self.checkpoints("run")[-1].unlink()
        for name in ("checkpoints/.step-000000060.safetensors.tmp.123.4", ".metrics.jsonl.tmp.123.5",
                     "checkpoints/.best.safetensors.tmp.link", ".report.html.tmp.123.6"):
            (run / name).write_bytes(b"half")
        with (run / "metrics.jsonl").open("a") as metrics:
            metrics.write('{"step":61,"epo')
        self.resume("run")
        self.assert_same_run("run", reference)


class Signals(ResumeTest):
    # A line per step: an interruption, which saves and so ends a line, then leaves no trace.
    LINES = settings(train__log_every=1)

    def setUp(self):
        super().setUp()
        self.deq(*command("plain", "reference"), *self.LINES, "--json")
        self.lines = len(self.metrics("reference"))

    def interrupt(self, run, rng, send):
        process = self.start(*command("plain", run), *self.LINES)
        metrics = self.folder / run / "metrics.jsonl"
        # Far enough from the end that a step is left when the signal comes.
        lines = rng.randrange(1, self.lines // 2)
        wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= lines, "metrics")
        send(process)
        _, stderr = process.communicate(timeout=HANGS)
        return process, stderr

    def test_the_step_is_finished_and_saved(self):
        def one(index):
            rng = random.Random(f"{SEED}/{index}")
            sent = (signal.SIGINT, signal.SIGTERM)[index % 2]
            run = f"run-{index}"
            process, stderr = self.interrupt(run, rng, lambda p: p.send_signal(sent))
            with about(index=index, stderr=stderr):
                # A status, not a death by signal: the program ended by itself.
                self.assertEqual(process.returncode, 128 + sent)
                self.assertIn(f"deq train --resume {run}\n", stderr)
                newest = self.metrics(run)[-1]["step"]
                self.assertEqual(self.checkpoints(run)[-1].name, f"step-{newest:09}.safetensors")
                self.assertLess(newest, STEPS)
                self.resume(run)
                self.assert_same_run(run, "reference")
        in_pairs(one, range(8))

    def test_two_signals_in_a_row(self):
        def one(index):
            rng = random.Random(f"{SEED}/{index}")
            run = f"run-{index}"

            def send(process):
                process.send_signal(rng.choice([signal.SIGINT, signal.SIGTERM]))
                time.sleep(rng.choice([0, 0, 0.001, 0.003]))
                process.send_signal(rng.choice([signal.SIGINT, signal.SIGTERM]))
            process, stderr = self.interrupt(run, rng, send)
            with about(index=index, stderr=stderr):
                self.assertIn(exit_status(process), (130, 143))
                self.resume(run)
                self.assert_same_run(run, "reference")
        in_pairs(one, range(12))

    def test_a_second_signal_does_not_wait_for_the_step(self):
        # One step of minutes: a million tiny steps of the solver.
        process = self.start(
            "train", CONFIG, "--out", "run", *settings(
                train__steps=2, train__batch_size=4096, solver__forward__name="picard",
                solver__forward__damping=1e-6, solver__forward__max_evals=1000000,
                solver__forward__stagnation_window=0))
        wait_until(lambda: self.checkpoints("run"), "the first checkpoint")
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired, msg="the first signal ended the step"):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANGS)
        self.assertEqual(process.returncode, 130)
        # A step that had been waited for would be saved.
        self.assertEqual([path.name for path in self.checkpoints("run")], ["step-000000000.safetensors"])
        self.deq("eval", "run", "--json", *settings(solver__forward__max_evals=10))


    def test_a_signal_after_the_last_step_does_not_spoil_the_report(self):
        def one(index):
            run = f"run-{index}"
            process = self.start(*command("plain", run))
            metrics = self.folder / run / "metrics.jsonl"
            report = self.folder / run / "report.html"
            last = f'"step":{STEPS},"epoch":4,"split":"valid"'.encode()
            wait_until(lambda: report.exists() if index % 2 else metrics.exists() and last in metrics.read_bytes(), "the end")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=HANGS)
            self.assertEqual(process.returncode, 0)
            self.assertTrue(report.is_file())
        in_pairs(one, range(8))

    def test_a_validation_is_given_up_and_made_again(self):
        # One of minutes, after steps of an instant: a wide layer whose ρ is measured densely.
        slow = settings(train__steps=2, train__eval_every_steps=1, data__train_samples=128, data__valid_samples=20000,
                        train__batch_size=64, solver__forward__max_evals=2)
        process = self.start("train", CONFIG, "--out", "run", *slow)
        metrics = self.folder / "run/metrics.jsonl"
        wait_until(lambda: metrics.exists() and b'"train"' in metrics.read_bytes(), "the first step")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=HANGS)
        self.assertEqual(process.returncode, 143)
        self.assertIn("interrupted and saved", stderr)
        self.assertEqual([line["split"] for line in self.metrics("run")], ["train"])
        self.assertEqual(self.checkpoints("run")[-1].name, "step-000000001.safetensors")
        self.resume("run")
        self.assertEqual([(line["step"], line["split"]) for line in self.metrics("run")],
                         [(1, "train"), (1, "valid"), (2, "train"), (2, "valid")])


class FullDisk(ResumeTest):
    # Mounts a small disk that only the script sees, and runs the program until it is full, again
    # on the full disk, and once more when there is room.
    SCRIPT = """
        mount -t tmpfs -o size=24m tmpfs disk || exit 77
        head -c $((24 * 1024 * 1024 - $1)) /dev/zero > disk/filler || exit 78
        shift
        "$@" --out disk/run --json 2> first.stderr; echo $? > first.status
        cp -r disk/run stopped
        "$DEQ_BINARY" eval disk/run --json > eval.stdout 2> eval.stderr; echo $? > eval.status
        "$DEQ_BINARY" train --resume disk/run --json 2> again.stderr; echo $? > again.status
        rm disk/filler
        "$DEQ_BINARY" train --resume disk/run --json > last.stdout 2> last.stderr; echo $? > last.status
        cp -r disk/run finished
    """

    def on_a_disk_with(self, space, recipe="plain"):
        """Leaves in the folder what the script says, and returns the statuses of its commands."""
        for name in ("stopped", "finished", "disk"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "disk").mkdir()
        script = ["sh", "-c", self.SCRIPT, "sh", str(space), os.environ["DEQ_BINARY"],
                  *map(str, command(recipe, "")[:-2])]
        for namespace in (["unshare", "-m"], ["unshare", "-rm"]):
            if shutil.which("unshare") is None:
                break
            result = subprocess.run([*namespace, *script], cwd=self.folder, capture_output=True,
                                    text=True)
            if result.returncode == 0:
                return {name: int((self.folder / f"{name}.status").read_text())
                        for name in ("first", "eval", "again", "last")}
        self.skipTest("this user may not mount a tmpfs, neither directly nor in a user namespace")

    def said(self, name):
        return (self.folder / f"{name}.stderr").read_text()

    def test_fails_in_a_sentence_and_goes_on_when_there_is_room(self):
        reference = self.undisturbed()
        blamed = set()
        for kilobytes in range(32, 84, 4):
            with self.subTest(kilobytes=kilobytes):
                status = self.on_a_disk_with(kilobytes * 1024)
                self.assertEqual(status["first"], 1, self.said("first"))
                self.assert_one_sentence(self.said("first"))
                self.assertRegex(self.said("first"),
                                 r"cannot (write|create) disk/run/\S+: No space left on device")
                blamed.add(self.said("first").split("disk/run/")[1].split("/")[0].split(":")[0])
                if not self.checkpoints("stopped"):
                    continue
                for path in self.checkpoints("stopped"):
                    read_checkpoint(path)
                self.assertEqual(status["eval"], 0, self.said("eval"))
                self.assertEqual(status["again"], 1, self.said("again"))
                self.assertIn("No space left on device", self.said("again"))
                self.assertEqual(status["last"], 0, self.said("last"))
                self.assert_same_run("finished", reference)
        self.assertIn("checkpoints", blamed)
        self.assertGreater(len(blamed), 1)  # the sizes met several kinds of files

    def test_room_for_all_but_the_report(self):
        reference = self.undisturbed()
        status = self.on_a_disk_with(1024 * 1024)
        self.assertEqual(status["first"], 1)
        self.assert_one_sentence(self.said("first"))
        self.assertIn("cannot write disk/run/report.html: No space left on device", self.said("first"))
        self.assertFalse((self.folder / "stopped/report.html").exists())
        self.assertEqual((status["eval"], status["last"]), (0, 0))
        self.assert_same_run("finished", reference)


def damaged_versions(whole, rng):
    """The bytes of a checkpoint with something missing, changed or added, by a description."""
    header_end = 8 + int.from_bytes(whole[:8], "little")
    lengths = {0, 1, 7, 8, 9, header_end - 1, header_end, header_end + 1, len(whole) - 1}
    lengths |= {rng.randrange(len(whole)) for _ in range(3)}
    for length in sorted(lengths):
        yield f"the first {length} bytes", whole[:length]
    # A bit in the header's length, in the header, and among the tensors.
    for begin, end, count in ((0, 8, 4), (8, header_end, 8), (header_end, len(whole), 6)):
        for _ in range(count):
            byte, bit = rng.randrange(begin, end), rng.randrange(8)
            changed = bytearray(whole)
            changed[byte] ^= 1 << bit
            yield f"bit {bit} of byte {byte}", bytes(changed)
    yield "a byte too many", whole + b"\0"
    yield "zeros", bytes(len(whole))
    yield "text", b"not a checkpoint at all\n"


def foreign_safetensors():
    """A file that is whole, and no checkpoint."""
    header = b'{"cell.w1":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    return len(header).to_bytes(8, "little") + header + bytes(8)


class Damage(ResumeTest):
    def setUp(self):
        super().setUp()
        self.reference = "reference"
        self.deq(*command("plain", self.reference), "--set", "train.checkpoints.keep=3", "--json")

    def stopped_run(self, name):
        """A run with two checkpoints and a few steps to go."""
        shutil.copytree(self.folder / self.reference, self.folder / name)
        self.checkpoints(name)[-1].unlink()
        older, newest = self.checkpoints(name)
        return older, newest

    def test_the_newest_whole_checkpoint_is_used_and_the_damaged_one_named(self):
        rng = random.Random(SEED)
        _, newest = self.stopped_run("probe")
        versions = [*damaged_versions(newest.read_bytes(), rng), ("foreign", foreign_safetensors())]

        def one(index):
            what, content = versions[index]
            run = f"run-{index}"
            _, damaged = self.stopped_run(run)
            damaged.write_bytes(content)
            result = self.deq("train", "--resume", run)
            with about(what=what, stderr=result.stderr):
                self.assertIn(damaged.name, result.stderr.splitlines()[0])
                self.assert_same_run(run, self.reference)
            shutil.rmtree(self.folder / run)
        in_pairs(one, range(len(versions)))

    def test_nothing_whole_is_left(self):
        rng = random.Random(SEED)
        files = self.stopped_run("run")
        whole = [path.read_bytes() for path in files]
        metrics = (self.folder / "run/metrics.jsonl").read_bytes()
        versions = [list(damaged_versions(content, rng)) for content in whole]
        for choice in rng.sample(range(len(versions[0])), 8):
            damage = [kinds[choice % len(kinds)] for kinds in versions]
            for path, (_, content) in zip(files, damage):
                path.write_bytes(content)
            for arguments in (("train", "--resume", "run"), ("eval", "run")):
                with about(damage=[what for what, _ in damage], arguments=arguments):
                    result = self.deq(*arguments, "--json", status=1)
                    self.assertEqual(result.stdout, "")
                    self.assert_one_sentence(result.stderr)
                    self.assertIn("run/checkpoints/step-0000000", result.stderr)
            # Nothing that could still be of use is gone.
            self.assertEqual((self.folder / "run/metrics.jsonl").read_bytes(), metrics)
            self.assertEqual([path.read_bytes() for path in files],
                             [content for _, content in damage])
        for path, content in zip(files, whole):
            path.write_bytes(content)
        self.resume("run")
        self.assert_same_run("run", self.reference)

    def test_something_else_under_a_later_steps_name(self):
        for keep in (1, 3):
            self.stopped_run("run")
            config = self.folder / "run/config.toml"
            config.write_text(config.read_text().replace("keep = 3", f"keep = {keep}"))
            checkpoints = self.folder / "run/checkpoints"
            (checkpoints / "step-000000098.safetensors").mkdir()
            (checkpoints / "step-000000099.safetensors").write_bytes(foreign_safetensors())
            result = self.deq("train", "--resume", "run")
            for name in ("step-000000098", "step-000000099"):
                self.assertIn(name, result.stderr)
            self.assertEqual(read_checkpoint(checkpoints / "step-000000060.safetensors")[0],
                             self.weights(self.reference))
            # It is the user's, who may wonder where it went.
            self.assertTrue((checkpoints / "step-000000099.safetensors").exists())
            shutil.rmtree(self.folder / "run")

    def test_a_configuration_that_no_longer_fits(self):
        self.stopped_run("run")
        config = self.folder / "run/config.toml"
        text = config.read_text()
        before = self.tree()
        for change, said in ((("hidden = 50", "hidden = 51"), "shape"),
                             (('name = "adam"', 'name = "sgd"'), "exp_avg"),
                             (("hidden = 50", "hidden = -1"), "model.hidden"),
                             (("hidden = 50", "hidden = "), "config.toml")):
            self.assertIn(change[0], text)
            lines = [line for line in text.replace(*change).splitlines(keepends=True)
                     if change[1] != 'name = "sgd"' or line.split(" ")[0] not in ("beta1", "beta2", "eps")]
            config.write_text("".join(lines))
            with self.subTest(change=change):
                result = self.deq("train", "--resume", "run", "--json",
                                  status=1 if said in ("shape", "exp_avg") else 2)
                self.assert_one_sentence(result.stderr)
                self.assertIn(said, result.stderr)
            config.write_text(text)
        self.assertEqual({path: content for path, content in self.tree().items()
                          if "tensorboard" not in path.parts},
                         {path: content for path, content in before.items()
                          if "tensorboard" not in path.parts})


class Misuse(ResumeTest):
    def test_what_cannot_be_combined(self):
        self.undisturbed()
        before = self.tree()
        for more in ([CONFIG], ["--set", "seed=1"], ["--out", "elsewhere"]):
            result = self.deq("train", "--resume", "undisturbed-plain", *more, status=2)
            self.assertIn("--resume", result.stderr)
            self.assertIn("--help", result.stderr)
            self.assertEqual(self.tree(), before)

    def test_no_run_there(self):
        (self.folder / "empty").mkdir()
        (self.folder / "file").write_text("")
        (self.folder / "half").mkdir()
        shutil.copy(CONFIG, self.folder / "half/config.toml")
        for run, said in (("nowhere", "nowhere"), ("empty", "config.toml"), ("file", "file"),
                          ("half", "checkpoints")):
            self.assertIn(said, self.refused("train", "--resume", run))

    def test_a_finished_run_stays_as_it_is(self):
        reference = self.undisturbed()
        shutil.copytree(self.folder / reference, self.folder / "run")
        before = {path: path.read_bytes() for path in self.checkpoints("run")}
        for _ in range(2):
            self.resume("run")
        said = self.deq("train", "--resume", "run").stderr
        self.assertEqual(said, f"run: already finished, step {STEPS} of {STEPS}\n")
        self.assert_same_run("run", reference)
        self.assertEqual({path: path.read_bytes() for path in self.checkpoints("run")}, before)

    def test_a_run_that_is_past_its_end_already(self):
        shutil.copytree(self.folder / self.undisturbed(), self.folder / "run")
        config = self.folder / "run/config.toml"
        config.write_text(config.read_text().replace(f"steps = {STEPS}\n", "steps = 10\n"))
        said = self.deq("train", "--resume", "run/").stderr
        self.assertEqual(said, f"run: its checkpoint is of step {STEPS}, but its configuration asks for 10 steps only: "
                               "nothing is left to train\n")


if __name__ == "__main__":
    unittest.main()
