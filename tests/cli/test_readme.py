"""The README's commands run as they stand there; only the data are small, and trainings short."""

import os
import random
import re
import shlex
import subprocess
import tarfile
import unittest

from pictures import png
from program import SEED, SOURCE, ProgramTest, settings


def command_blocks():
    """Those of the section on the program, a list of commands each."""
    readme = (SOURCE / "README.md").read_text()
    section = re.search(r"^## The program\n(.*?)^## ", readme, re.DOTALL | re.MULTILINE)[1]
    return [[shlex.split(line, comments=True) for line in block.splitlines()]
            for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


class Readme(ProgramTest):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(SEED)
        os.symlink(SOURCE / "configs", self.folder / "configs")

    def run_block(self, commands, about, train=()):
        """Each command of a block, which is the one about `about`; trainings with more settings."""
        self.assertTrue(any(about in word for command in commands for word in command), commands)
        for command in commands:
            self.assertEqual(command[0], "deq")
            more = train if command[1] == "train" else ()
            result = subprocess.run([os.environ["DEQ_BINARY"], *command[1:], *more], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, (command, result.stdout + result.stderr))

    def test_every_block_is_run_here(self):
        self.assertEqual(len(command_blocks()), 4)

    def test_synthetic(self):
        self.run_block(command_blocks()[0], "synthetic.toml")

    def test_images(self):
        self.write_cifar10()
        for split in ("train", "test"):
            folder = self.folder / "data/flowers" / split / "daisy"
            folder.mkdir(parents=True)
            (folder / "1.png").write_bytes(self.picture())
        (self.folder / "photo.jpg").write_bytes(self.picture())  # what is in a file counts, not its name
        short = settings(train__epochs=1, train__batch_size=10, train__pretrain__steps=1, data__train_samples=30,
                         data__valid_samples=20)
        self.run_block(command_blocks()[1], "cifar10-tiny.toml", short)

    def test_text(self):
        folder = self.folder / "data/books"
        folder.mkdir(parents=True)
        words = [f"word{i}" for i in range(5100)]  # more than the last of the model's cutoffs
        for split, count in (("train", 5100), ("valid", 200), ("test", 200)):
            chosen = words if split == "train" else self.draw.sample(words, count)
            (folder / f"{split}.txt").write_text(" ".join(chosen) + " \n")
        short = settings(train__steps=2, train__batch_size=4, train__pretrain__steps=1)
        self.run_block(command_blocks()[2], "books-deq.toml", short)

    def test_puzzles(self):
        (self.folder / "data").mkdir()
        (self.folder / "puzzle.txt").write_text("1...\n..3.\n....\n.2.4\n")
        short = settings(train__steps=2, data__valid_puzzles=20)
        self.run_block(command_blocks()[3], "eqr-sudoku-small.toml", short)

    def picture(self):
        return png([[tuple(self.draw.randbytes(3)) for _ in range(32)] for _ in range(32)])

    def write_cifar10(self):
        """An archive as it can be downloaded; its files must be whole, but the same image may be in them often."""
        folder = self.folder / "cifar-10-batches-bin"
        folder.mkdir()
        (folder / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)))
        images = b"".join(bytes([label]) + self.draw.randbytes(3072) for label in range(10))
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            (folder / f"{name}.bin").write_bytes(1000 * images)
        with tarfile.open(self.folder / "cifar-10-binary.tar.gz", "w:gz", compresslevel=1) as archive:
            archive.add(folder, folder.name)


if __name__ == "__main__":
    unittest.main()
