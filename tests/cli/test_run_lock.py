"""Two trainings in one run folder: the second is refused, and nothing of the first is touched."""

import json
import os
import shutil
import signal
import socket
import unittest

from program import CONFIG, HANGS, ProgramTest, settings, wait_until

STEPS = 40
SMALL = settings(train__steps=STEPS, train__batch_size=16, train__log_every=5, train__eval_every_steps=20,
                 train__checkpoints__every_steps=5, data__train_samples=64, data__valid_samples=16)
# It does not end within a test.
ENDLESS = settings(train__steps=10**9, train__batch_size=16, train__log_every=5, train__eval_every_steps=10**9,
                   train__checkpoints__every_steps=5, data__train_samples=64, data__valid_samples=16)


class RunLock(ProgramTest):
    def start_endless(self, *more):
        process = self.start("train", CONFIG, *ENDLESS, *more, "--out", "run")
        wait_until(lambda: len(self.checkpoints("run")) > 1, "checkpoints")
        return process

    def stop(self, process, how=signal.SIGSTOP):
        process.send_signal(how)
        if how == signal.SIGSTOP:  # it keeps what it holds, and writes nothing meanwhile
            wait_until(lambda: os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT), "a stop")

    def refused_by(self, process, *arguments):
        message = self.refused(*arguments)
        self.assertIn(f"process {process.pid} on {socket.gethostname()}", message)
        self.assertIn("run", message)

    def test_the_second_is_refused_and_touches_nothing(self):
        process = self.start_endless()
        self.stop(process)
        self.refused_by(process, "train", "--resume", "run")
        self.refused_by(process, "train", "--resume", "run", "--nproc", "2")
        self.deq("eval", "run", "--json")  # reading is free
        process.send_signal(signal.SIGCONT)

    def test_a_kill_leaves_nothing_locked(self):
        self.deq("train", CONFIG, *SMALL, "--out", "whole", "--json")
        process = self.start("train", CONFIG, *SMALL, "--out", "run")
        wait_until(lambda: len(self.checkpoints("run")) > 1, "checkpoints")
        process.kill()
        process.communicate()
        self.deq("train", "--resume", "run", "--json")
        self.assertEqual(self.weights("run"), self.weights("whole"))
        self.assertEqual(self.metrics("run"), self.metrics("whole"))
        self.assertFalse((self.folder / "run/lock").exists())

    def test_an_interruption_leaves_nothing_locked(self):
        process = self.start_endless()
        self.assertTrue((self.folder / "run/lock").exists())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANGS)
        self.assertEqual(process.returncode, 130)
        self.assertFalse((self.folder / "run/lock").exists())

    def test_what_is_left_of_one_that_was_killed_at_once_is_no_run(self):
        (self.folder / "run").mkdir()
        (self.folder / "run/lock").write_text("process 1 on nowhere\n")
        result = self.deq("train", CONFIG, *SMALL, "--out", "run", "--json")
        self.assertEqual(json.loads(result.stdout)["step"], STEPS)

    def test_the_ranks_of_one_run_share_it(self):
        process = self.start_endless("--nproc", "2")
        holder = (self.folder / "run/lock").read_text()
        self.assertNotIn(f"process {process.pid} ", holder)  # that is the launcher
        message = self.deq("train", "--resume", "run", status=2).stderr
        self.assertIn(holder.strip(), message)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANGS)
        shutil.copytree(self.folder / "run", self.folder / "copy")
        self.assertFalse((self.folder / "copy/lock").exists())


if __name__ == "__main__":
    unittest.main()
