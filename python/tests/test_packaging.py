"""What a wheel says of itself: scripts/lib/wheel_pins.py, and the release of torch in the places that name it."""

import os
import pathlib
import re
import runpy
import zipfile

import pytest
import torch

import deq
from deq import _core, _torch_version

SOURCE = pathlib.Path(os.environ.get("DEQ_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def test_the_places_that_name_the_release_of_torch_agree():
    release = _torch_version.BUILT_WITH
    assert f'"torch=={release}.*"' in (SOURCE / "pyproject.toml").read_text()
    assert re.search(rf"readonly TORCH_VERSION={re.escape(release)}\.\d+$", (SOURCE / "scripts/setup.sh").read_text(), re.MULTILINE)
    assert _core.torch_version.split(".")[:2] == torch.__version__.split(".")[:2] == release.split(".")


FILES = {
    "deq/_torch_version.py": 'BUILT_WITH = "2.11"\n',
    "deq/py.typed": "",
    "deq/_core.pyi": "",
    "deq/_core.cpython-311-x86_64-linux-gnu.so": "",
    "deq/bin/deq": "",
    "deq/lib/libdeq.so.0.1": "",
}


@pytest.mark.parametrize(
    "changes, requires, faults",
    [
        ({}, "torch==2.11.*", []),
        ({}, "torch>=2.11", ["import deq wants torch 2.11, and the metadata want"]),
        ({"deq/_torch_version.py": 'BUILT_WITH = "2.10"\n'}, "torch==2.11.*", ["import deq wants torch 2.10"]),
        ({"deq/py.typed": None}, "torch==2.11.*", ["it has no deq/py.typed"]),
        ({"deq/_core.cpython-311-x86_64-linux-gnu.so": None}, "torch==2.11.*", ["its core is for another Python"]),
    ],
)
def test_a_wheel_that_is_not_what_it_says_is_found_out(changes, requires, faults, tmp_path):
    wheel = tmp_path / f"libdeq-{deq.__version__}-cp311-cp311-linux_x86_64.whl"
    said = f"Metadata-Version: 2.4\nVersion: {deq.__version__}\nRequires-Dist: {requires}\nRequires-Python: >=3.10\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"libdeq-{deq.__version__}.dist-info/METADATA", said)
        for name, text in {**FILES, **changes}.items():
            if text is not None:
                archive.writestr(name, text)
    found = list(runpy.run_path(str(SOURCE / "scripts/lib/wheel_pins.py"))["faults"](wheel))
    assert len(found) == len(faults)
    assert all(expected in sentence for expected, sentence in zip(faults, found))
