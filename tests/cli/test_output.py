"""Output that nobody can take: a full device, a pipe whose reader has gone."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from program import CONFIG, SHORT, ProgramTest, settings

FULL = pathlib.Path("/dev/full")


class Output(ProgramTest):
    def into(self, target, *arguments, **more):
        """Runs the program with this file as its standard output."""
        return subprocess.run([os.environ["DEQ_BINARY"], *map(str, arguments)], cwd=self.folder,
                              stdin=subprocess.DEVNULL, stdout=target, stderr=subprocess.PIPE, text=True, **more)

    def closed_pipe(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        return writer


@unittest.skipUnless(FULL.is_char_device(), "this system has no /dev/full")
class FullDevice(Output):
    def test_every_command_that_prints_fails_in_a_sentence(self):
        self.train()
        for arguments in (["--version"], ["--help"], ["train", "--help"], ["doctor"], ["eval", "run"],
                          ["eval", "run", "--json"], ["report", "run"], ["reproduce", "--list", "--recipes",
                                                                         CONFIG.parent.parent / "reproduce"]):
            with self.subTest(arguments=arguments), FULL.open("w") as full:
                result = self.into(full, *arguments)
                self.assertEqual(result.returncode, 1, result.stderr)
                *before, last = result.stderr.splitlines()
                self.assertEqual(last, "deq: cannot write to standard output: No space left on device")

    def test_a_training_is_saved_all_the_same(self):
        with FULL.open("w") as full:
            result = self.into(full, "train", CONFIG, *SHORT, "--out", "run")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("cannot write to standard output", result.stderr)
        self.assertTrue((self.folder / "run/report.html").is_file())
        self.deq("eval", "run", "--json")

    def test_misuse_stays_misuse(self):
        with FULL.open("w") as full:
            self.assertEqual(self.into(full, "eval", "nowhere").returncode, 2)


class ReaderIsGone(Output):
    def test_commands_that_print_end_quietly(self):
        self.train()
        for arguments in (["doctor"], ["eval", "run"], ["report", "run"], ["--help"]):
            for restore in (True, False):  # whether a closed pipe sends its signal
                with self.subTest(arguments=arguments, restore=restore):
                    result = self.into(self.closed_pipe(), *arguments, restore_signals=restore)
                    self.assertIn(result.returncode, (-signal.SIGPIPE, 128 + signal.SIGPIPE))
                    self.assertEqual(result.stderr, "")

    def test_a_training_goes_on_to_the_same_end(self):
        self.train("whole")
        pipe = self.closed_pipe()
        command = [os.environ["DEQ_BINARY"], "train", CONFIG, *SHORT, "--out", "run"]
        status = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=pipe).returncode
        self.assertEqual(status, 0)
        self.assertEqual(self.weights("run"), self.weights("whole"))
        self.assertEqual(self.metrics("run"), self.metrics("whole"))

    def test_a_training_whose_results_nobody_reads_is_saved(self):
        # `deq train … | head -1`, whose reader has gone when the run's last lines come.
        self.train("whole")
        for processes in (1, 2):
            with self.subTest(processes=processes):
                run = f"run-{processes}"
                result = self.into(self.closed_pipe(), "train", CONFIG, *SHORT, "--out", run, "--nproc", processes)
                self.assertEqual(result.returncode, 128 + signal.SIGPIPE, result.stderr)
                self.assertNotIn("deq:", result.stderr)
                self.assertTrue((self.folder / run / "report.html").is_file())
                self.assertEqual(self.metrics(run)[-1]["step"], 8)
                self.assertEqual(json.loads(self.deq("train", "--resume", run, "--json").stdout)["step"], 8)
        self.assertEqual(self.weights("run-1"), self.weights("whole"))

    def test_so_does_one_of_several_processes(self):
        pipe = self.closed_pipe()
        command = [os.environ["DEQ_BINARY"], "train", CONFIG, *SHORT, *settings(train__log_every=1), "--out", "run",
                   "--nproc", "2"]
        status = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=pipe).returncode
        self.assertEqual(status, 0)
        self.assertEqual(self.metrics("run")[-1]["step"], 8)


if __name__ == "__main__":
    unittest.main()
