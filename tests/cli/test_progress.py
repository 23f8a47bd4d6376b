"""The progress line on terminals of several widths and kinds."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from program import CONFIG, HANGS, ProgramTest, settings

# Some tenths of a second, with evaluations in between and an unrolled start.
LENGTHY = settings(train__steps=600, train__batch_size=8, data__train_samples=256, data__valid_samples=64,
                   train__eval_every_steps=150, train__pretrain__steps=100, train__log_every=50)
CLEAR = "\r\033[K"


class Progress(ProgramTest):
    def screen(self, *arguments, columns=0, status=0, **environment):
        """All that the program writes to a terminal of so many columns; 0: it does not say how many."""
        screen, terminal = pty.openpty()
        self.addCleanup(os.close, screen)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        surroundings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "TERM")}
        process = subprocess.Popen(
            [os.environ["DEQ_BINARY"], *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=terminal, env={**surroundings, "TERM": "xterm", **environment})
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # that the other end is closed
            while part := os.read(screen, 65536):
                shown += part
        self.assertEqual(process.wait(timeout=HANGS), status, shown)
        return shown.decode()

    def lines(self, name, **more):
        """The states of the progress line, one after the other."""
        shown = self.screen("train", CONFIG, *LENGTHY, "--out", name, **more)
        return [line for line in re.split(r"\r\033\[K|\r\n", shown) if re.search(r"\d+/600(  |$)", line)
                and "epoch" not in line]

    def test_it_fits_into_every_width(self):
        for columns in (200, 80, 60, 40, 20):
            with self.subTest(columns=columns):
                lines = self.lines(f"run-{columns}", columns=columns)
                self.assertTrue(lines)
                for line in lines:
                    self.assertLess(len(line), columns, line)

    def test_where_the_terminal_does_not_say_its_width(self):
        self.assertTrue(any(len(line) > 40 for line in self.lines("a")))
        for line in self.lines("b"):
            self.assertLess(len(line), 80)
        for line in self.lines("c", COLUMNS="50"):
            self.assertLess(len(line), 50)

    def test_a_wide_line_has_everything(self):
        last = self.lines("run", columns=200)[-2:]
        self.assertRegex(" ".join(last), r"run \[[#.]{24}\] \d+/600  solving  \S+ steps/s  \d+:\d\d left  "
                                         r"loss \S+  nfe \d+  residual \S+")

    def test_the_phases_are_named(self):
        lines = self.lines("run", columns=100)
        phases = [re.search(r"/600  (\w+)", line)[1] for line in lines]
        self.assertEqual(phases[0], "pretraining")
        self.assertIn("evaluating", phases)
        self.assertIn("solving", phases)
        self.assertNotIn("pretraining", phases[phases.index("solving"):])

    def test_no_escapes_on_a_dumb_terminal(self):
        shown = self.screen("train", CONFIG, *LENGTHY, "--out", "run", columns=80, TERM="dumb")
        self.assertNotIn("\033", shown)
        self.assertNotIn("/600  solving", shown)
        self.assertIn("step 600/600  mse", shown)

    def test_evaluations_have_no_rate(self):
        # That their time is no part of the rate of steps is tested by tests/core/pace_test.cpp.
        slow = settings(train__steps=40, train__batch_size=8, data__train_samples=64, data__valid_samples=20000,
                        train__eval_every_steps=1, train__eval_budgets="[2,3,4,5]")
        shown = self.screen("train", CONFIG, *slow, "--out", "run", columns=200)
        lines = re.split(r"\r\033\[K|\r\n", shown)
        self.assertTrue([line for line in lines if re.search(r"solving  \S+ steps/s", line)], lines)
        evaluating = [line for line in lines if "evaluating" in line]
        self.assertTrue(evaluating)
        self.assertFalse([line for line in evaluating if "steps/s" in line])


if __name__ == "__main__":
    unittest.main()
