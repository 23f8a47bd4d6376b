"""What the tests of the Python package share."""

import faulthandler
import os
import signal
import subprocess
import sys
import textwrap
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tests run side by side

import pytest
import torch

SEED = int(os.environ.get("DEQ_TEST_SEED", 20210713))


@pytest.fixture(autouse=True)
def bounded_and_seeded():
    """A test that hangs ends with all threads' stacks; random numbers are the same in every run."""
    faulthandler.dump_traceback_later(300, exit=True)
    torch.manual_seed(SEED)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_report_header(config):
    return f"seed {SEED} (DEQ_TEST_SEED sets another), torch {torch.__version__}"


class TanhCell(torch.nn.Module):
    """f(z; x) = tanh(W z + U x + b) with a spectral radius of W below 1."""

    def __init__(self, width, dtype=torch.float64, scale=0.6):
        super().__init__()
        self.w = torch.nn.Linear(width, width, bias=False, dtype=dtype)
        self.u = torch.nn.Linear(width, width, dtype=dtype)
        with torch.no_grad():
            self.w.weight.copy_(scale * torch.nn.init.orthogonal_(torch.empty(width, width, dtype=dtype)))

    def forward(self, z, x):
        return torch.tanh(self.w(z) + self.u(x))


INTERRUPTED = """
    import ctypes, os, torch, deq
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    def layer(**options):
        return deq.Equilibrium(lambda z, x: x - z, forward=deq.Anderson(rtol=1e-10), **options)
    def wild_model(**options):
        model = deq.models.MDEQ(channels=[8, 8], groups=4, head_channels=[4, 4], final_channels=8, **options).eval()
        for parameter in model.parameters():
            parameter.data.mul_(30)
        return model
    {before}
    print("solving", flush=True)
    try:
        {solve}
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def interrupted(solve, before=""):
    """What a program prints that gets Ctrl-C while it solves."""
    program = textwrap.dedent(INTERRUPTED).format(solve=solve, before=before)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout.readline() == "solving\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=60)[0]
    finally:
        process.kill()


@pytest.fixture
def cell():
    return TanhCell(5)


@pytest.fixture
def x():
    return torch.randn(3, 5, dtype=torch.float64)
