"""CIFAR-10's Python version as Python and numpy write it, in the hands of our reader."""

import io
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest

PYTHON = pathlib.Path(os.environ.get("DEQ_TEST_PYTHON", ""))
if not PYTHON.is_file():
    print("skipped: no numpy (scripts/setup.sh --test)")
    sys.exit(77)
if pathlib.Path(sys.executable) != PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])

import numpy

IMAGES = 20
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


class Python2Pickler(pickle._Pickler):
    """Writes texts and bytes as the strings of Python 2, as the published files have them."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        value = value.encode() if isinstance(value, str) else value
        short = len(value) < 256
        self.write((b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<I", len(value))) + value)
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_string


def python2(value):
    out = io.BytesIO()
    Python2Pickler(out, 2).dump(value)
    return out.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


WRITERS = {
    "python2": python2,
    "protocol2": lambda value: pickle.dumps(value, 2),
    "protocol3": lambda value: pickle.dumps(value, 3),
}


class Cifar(unittest.TestCase):
    def test_every_version_is_the_binary_one(self):
        random = numpy.random.default_rng(1)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for version in ["binary", *WRITERS]:
                (folder / version).mkdir()
            (folder / "binary/batches.meta.txt").write_text("\n".join(CLASSES) + "\n\n")
            for version, dump in WRITERS.items():
                meta = {"num_cases_per_batch": 10000, "label_names": CLASSES, "num_vis": 3072}
                (folder / version / "batches.meta").write_bytes(dump(meta))
            for batch in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
                data = random.integers(0, 256, (IMAGES, 3072), numpy.uint8)
                labels = random.integers(0, 10, IMAGES).tolist()
                records = b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, data))
                (folder / "binary" / f"{batch}.bin").write_bytes(records)
                content = {"batch_label": "a batch", "labels": labels, "data": data,
                           "filenames": [f"{i}.png" for i in range(IMAGES)]}
                for version, dump in WRITERS.items():
                    (folder / version / batch).write_bytes(dump(content))
            subprocess.run(
                [pathlib.Path(os.environ["DEQ_BUILD_DIR"]) / "bin/test_data", "--gtest_filter=CifarFromPython.*"],
                env={**os.environ, "DEQ_CIFAR_SAMPLES": name}, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    unittest.main()
