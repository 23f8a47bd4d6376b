"""Bad input: one clear sentence, exit status 2 (misuse) or 1 (it failed), nothing half-written."""

import os
import unittest

from program import CONFIG, SHORT, ProgramTest


class CommandLine(ProgramTest):
    def test_what_the_command_line_lacks_or_has_too_much(self):
        for arguments in ([], ["dance"], ["train"], ["train", CONFIG, "--wings"], ["eval"],
                          ["report"], ["demo", "--seed", "-1"], ["demo", "--seed", "x"]):
            result = self.deq(*arguments, status=2)
            self.assertIn("--help", result.stderr, arguments)
            self.assertEqual(self.tree(), {})

    def test_an_unknown_command_is_named_with_what_was_meant(self):
        for arguments, said in ((["trian"], "unknown command trian; did you mean train?"),
                                (["evla", "run"], "unknown command evla; did you mean eval?"),
                                (["data", "sumary", "x"], "unknown command data sumary; did you mean data summary?"),
                                (["bench", "solver"], "unknown command bench solver; did you mean bench solvers?")):
            message = self.deq(*arguments, status=2).stderr
            self.assertIn(said, message)
            self.assertIn("--help", message)
        message = self.deq("dance", status=2).stderr
        self.assertIn("unknown command dance", message)
        self.assertNotIn("did you mean", message)

    def test_a_list_with_a_gap(self):
        for budgets in ("1,,2", ",1", "1,", ""):
            message = self.deq("eval", "run", "--budgets", budgets, status=2).stderr
            self.assertIn("--budgets", message)

    def test_a_count_that_is_none(self):
        for budgets in ("0", "4,-1", "2,many", "1.5"):
            message = self.deq("eval", "run", "--budgets", budgets, status=2).stderr
            self.assertIn("must be a whole number above zero, not " + budgets.split(",")[-1], message)


    def test_a_trace_without_a_folder(self):
        for arguments in (["train", CONFIG, *SHORT, "--out", "run"], ["bench", "mdeq"]):
            message = self.deq(*arguments, "--trace", "nowhere/trace.json", status=2).stderr
            self.assertIn("--trace nowhere/trace.json: there is no folder", message)
            self.assertEqual(self.tree(), {})

    def test_a_file_that_is_no_file(self):
        (self.folder / "folder").mkdir()
        os.mkfifo(self.folder / "pipe")
        for name in ("folder", "pipe"):
            for arguments in (["train", CONFIG, *SHORT, "--out", "run", "--trace", name],
                              ["bench", "mdeq", "--trace", name], ["bench", "solvers", "--json", name]):
                message = self.deq(*arguments, status=2).stderr
                self.assert_one_sentence(message)
                self.assertIn(f"{arguments[-2]}: cannot write {name}: it exists and is not a regular file", message)
        self.assertEqual({str(path) for path in self.tree()}, {"folder", "pipe"})
        self.assertTrue((self.folder / "pipe").is_fifo())

    def test_numbers_for_a_file_in_no_folder(self):
        message = self.deq("bench", "solvers", "--json", "nowhere/x.json", status=2).stderr
        self.assertIn("--json nowhere/x.json: there is no folder", message)

    def test_a_precision_is_a_name(self):
        for name in ("half", "2"):
            message = self.deq("bench", "mdeq", "--precision", name, status=2).stderr
            self.assertIn(f"--precision: {name} not in {{float32,tf32,bfloat16,float64}}", message)

    def test_numbers_beyond_all_bounds(self):
        for arguments, said in ((["bench", "solvers", "--dim", "99999999999999"], "--dim: must be at most 1000000000"),
                                (["data", "make", "sudoku", "out", "--train", "9223372036854775807"],
                                 "--train: must be at most 1000000000"),
                                (["demo", "--seed", "9223372036854775808"], "--seed: must be a whole number, zero or above"),
                                (["data", "check", ".", "--show", "-1"], "--show: must be a whole number, zero or above")):
            self.assertIn(said, self.deq(*arguments, status=2).stderr)
        self.assertEqual(self.tree(), {})

    def test_an_unknown_option_is_named_with_what_was_meant(self):
        for arguments, said in ((["--versoin"], "deq has no option --versoin; did you mean --version?"),
                                (["eval", "run", "--budget", "2"], "deq eval has no option --budget; did you mean --budgets?"),
                                (["data", "check", ".", "--wings"], "deq data check has no option --wings\n")):
            message = self.deq(*arguments, status=2).stderr
            self.assertIn(said, message)
            self.assertIn("--help", message)


class Configuration(ProgramTest):
    def test_a_missing_file(self):
        self.assertIn("nowhere.toml", self.refused("train", "nowhere.toml"))

    def test_a_bad_value_names_line_key_value_and_what_is_allowed(self):
        (self.folder / "bad.toml").write_text(
            'experiment = "synthetic"\n\n[train]\nbatch_size = -3\n')
        message = self.refused("train", "bad.toml")
        for part in ("bad.toml:4", "train.batch_size", "-3", "≥ 1"):
            self.assertIn(part, message)

    def test_an_unknown_key_is_named_with_its_neighbour(self):
        (self.folder / "bad.toml").write_text('experiment = "synthetic"\n[train]\nepoch = 3\n')
        message = self.refused("train", "bad.toml")
        self.assertIn("bad.toml:3", message)
        self.assertIn('did you mean "train.epochs"', message)

    def test_a_bad_override(self):
        for override in ("train.epochs=abc", "train.epochs", "solver.forward.name=magic",
                         "jacobian.gamma=nan"):
            self.assertIn(override, self.refused("train", CONFIG, "--set", override))

    def test_broken_toml(self):
        (self.folder / "bad.toml").write_text('experiment = "synthetic\n')
        self.assertIn("bad.toml:1", self.refused("train", "bad.toml"))


class Devices(ProgramTest):
    def test_an_unknown_device(self):
        message = self.refused("train", CONFIG, "--device", "abacus")
        self.assertIn('"abacus"', message)
        self.assertIn("cpu, cuda", message)

    def test_cuda_where_there_is_none(self):
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        for command in (["train", CONFIG], ["demo"]):
            self.assertIn('"cuda"', self.refused(*command, "--device", "cuda", env=hidden))


class Folders(ProgramTest):
    def test_a_folder_in_use_is_never_touched(self):
        self.train()
        for command in (["train", CONFIG, *SHORT], ["demo"]):
            self.assertIn("run", self.refused(*command, "--out", "run"))

    def test_no_run_there(self):
        (self.folder / "empty").mkdir()
        for command in ("eval", "report"):
            self.assertIn("nowhere", self.refused(command, "nowhere"))
            self.assertIn("config.toml", self.refused(command, "empty"))

    def test_a_damaged_checkpoint(self):
        self.train()
        files = sorted((self.folder / "run/checkpoints").glob("step-*.safetensors"))
        whole = files[-1].read_bytes()
        for damaged in (whole[:-8], whole[:20], b"", b"\xff" * 64):
            for file in files:
                file.write_bytes(damaged)
            self.assertIn("step-000000", self.refused("eval", "run", status=1))

    def test_a_checkpoint_of_another_size(self):
        self.train()
        config = self.folder / "run/config.toml"
        config.write_text(config.read_text().replace("hidden = 50", "hidden = 51"))
        self.assertIn("shape", self.refused("eval", "run", status=1))


class Memory(ProgramTest):
    def test_what_does_not_fit_is_said_in_a_sentence(self):
        for samples in (10**13, 10**17):
            result = self.deq("train", CONFIG, "--set", f"data.train_samples={samples}", "--out", "run", status=1)
            # The address sanitizer has a line of its own on such a request.
            own = "".join(line for line in result.stderr.splitlines(True) if "AddressSanitizer failed to" not in line)
            self.assert_one_sentence(own)
            self.assertIn("out of memory", own)
            self.assertIn("train.batch_size", own)
            self.assertEqual(self.tree(), {})


    def test_only_a_training_has_a_batch_to_lower(self):
        own = self.deq("bench", "solvers", "--dim", "1000000000", "--batch", "65536", status=1).stderr
        self.assertIn("out of memory", own)
        self.assertNotIn("train.batch_size", own)


class Numerics(ProgramTest):
    def test_a_loss_that_is_no_longer_finite(self):
        result = self.deq("train", CONFIG, *SHORT, "--set", "train.lr=1e30", "--out", "run", "--json",
                          status=1)
        *warnings, last = result.stderr.splitlines()
        self.assertRegex(last, r"^deq: training stopped: the loss or its gradient was not finite")
        self.assertEqual(len(warnings), 3)
        for warning in warnings:
            self.assertIn("going back to step 0", warning)


if __name__ == "__main__":
    unittest.main()
