"""Data as a user brings it: looked at, checked, packed, unpacked; whole and damaged. And puzzles made here."""

import io
import json
import os
import random
import statistics
import tarfile
import unittest

from program import SEED, ProgramTest
from test_vision import VisionTest, png


class DataTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(SEED)
        self.pixels = {"train": [], "test": []}
        for split, count in (("train", 6), ("test", 3)):
            for name in ("ant", "bee"):
                for index in range(count):
                    self.put(split, name, f"{index}.png")

    def put(self, split, name, file, width=8, height=6):
        path = self.folder / "set" / split / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [[tuple(self.draw.randrange(256) for _ in range(3)) for _ in range(width)]
                for _ in range(height)]
        self.pixels[split] += [pixel for row in rows for pixel in row]
        path.write_bytes(png(rows))
        return path

    def look(self, command, *arguments, status=0):
        return json.loads(self.deq("data", command, *arguments, "--json", status=status).stdout)

    def problems(self, path="set"):
        return {problem["where"]: problem["what"]
                for problem in self.look("check", path, status=1)["problems"]}


class Summary(DataTest):
    def test_everything_that_is_there(self):
        self.put("train", "ant", "wide.png", width=30)
        found = self.look("summary", "set")
        self.assertEqual(found["format"], "folder")
        train, test = found["splits"]
        self.assertEqual((train["split"], test["split"]), ("train", "test"))
        self.assertEqual(train["classes"], {"ant": 7, "bee": 6})
        self.assertEqual(train["images"], 13)
        self.assertEqual(train["bytes"],
                         sum(path.stat().st_size for path in (self.folder / "set/train").glob("*/*")))
        self.assertEqual(train["width"], {"min": 8, "median": 8, "max": 30})
        self.assertEqual(train["height"], {"min": 6, "median": 6, "max": 6})
        self.assertEqual(train["channels"], {"3": 13})
        for channel in range(3):
            values = [pixel[channel] / 255 for pixel in self.pixels["train"]]
            self.assertAlmostEqual(train["mean"][channel], statistics.fmean(values), places=12)
            self.assertAlmostEqual(train["deviation"][channel], statistics.pstdev(values), places=12)
        text = self.deq("data", "summary", "set").stdout
        for part in ("image folder", "ant 7, bee 6", "8 × 6 to 30 × 6", "on all images"):
            self.assertIn(part, text)

    def test_a_part_of_a_large_set(self):
        train = self.look("summary", "set", "--samples", "5")["splits"][0]
        self.assertEqual((train["images"], train["examined"]), (12, 5))
        self.assertIn("on 5 images", self.deq("data", "summary", "set", "--samples", "5").stdout)

    def test_a_folder_of_classes_by_itself(self):
        found = self.look("summary", "set/train")
        self.assertEqual([split["split"] for split in found["splits"]], [""])
        self.assertEqual(found["splits"][0]["images"], 12)


class Check(DataTest):
    def test_a_whole_set(self):
        found = self.look("check", "set")
        self.assertEqual(found["problems"], [])
        self.assertIn("18 images, 0 problems", self.deq("data", "check", "set").stdout)

    def test_every_damaged_file_is_named(self):
        whole = (self.folder / "set/train/ant/0.png").read_bytes()
        damages = {"train/ant/0.png": whole[:-20], "train/ant/1.png": b"", "test/bee/2.png": b"text",
                   "train/bee/3.png": whole[:40] + bytes([whole[40] ^ 255]) + whole[41:]}
        for name, content in damages.items():
            (self.folder / "set" / name).write_bytes(content)
        (self.folder / "set/test/ant/x.jpg").symlink_to("nowhere")
        problems = self.problems()
        self.assertEqual(set(problems), {*damages, "test/ant/x.jpg"})
        self.assertEqual(problems["train/ant/1.png"], "the file is empty")
        self.assertIn("neither JPEG nor PNG", problems["test/bee/2.png"])
        text = self.deq("data", "check", "set", "--show", "2", status=1).stdout
        self.assertIn("and 3 more", text)
        self.assertIn("5 problems", text)
        self.assertIn("deq data check", self.deq("data", "summary", "set").stderr)

    def test_classes_that_differ_and_folders_without_images(self):
        self.put("train", "cow", "0.png")
        (self.folder / "set/test/dog").mkdir()
        (self.folder / "set/test/dog/notes.txt").write_text("none yet")
        found = self.look("check", "set", status=1)
        where = sorted(problem["where"] for problem in found["problems"])
        self.assertEqual(where, ["test/cow", "test/dog", "train/dog"])
        self.assertEqual(found["passed_over"], ["test/dog/notes.txt"])

    def test_a_split_is_missing(self):
        (self.folder / "set/test").rename(self.folder / "elsewhere")
        self.assertEqual(list(self.problems()), ["test"])


class Pack(DataTest):
    def test_every_split(self):
        result = self.look("pack", "set", "packed")
        self.assertEqual([(split["split"], split["images"]) for split in result["splits"]],
                         [("train", 12), ("test", 6)])
        before, after = self.look("summary", "set"), self.look("summary", "packed")
        self.assertEqual(after["format"], "packed")
        self.assertEqual(before["splits"], after["splits"])
        self.assertEqual(self.look("check", "packed")["problems"], [])

    def test_a_damaged_byte_is_found(self):
        self.deq("data", "pack", "set", "packed")
        shard = self.folder / "packed/train/images-00000.bin"
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        (name, reason), = self.problems("packed").items()
        self.assertRegex(name, r"train/(ant|bee)/\d.png")
        self.assertIn("checksum", reason)
        shard.write_bytes(content[:-1])
        self.assertEqual(list(self.problems("packed")), ["train/"])

    def test_nothing_is_overwritten_and_nothing_half_done_stays(self):
        (self.folder / "taken").mkdir()
        self.assertIn("taken", self.refused("data", "pack", "set", "taken"))
        (self.folder / "set/test/bee/1.png").write_bytes(b"text")
        self.assertIn("test/bee/1.png", self.refused("data", "pack", "set", "packed", status=1))

    def test_unreadable_files_are_left_out_and_named_where_that_is_wanted(self):
        (self.folder / "set/test/bee/1.png").write_bytes(b"text")
        result = self.deq("data", "pack", "set", "packed", "--skip-unreadable")
        self.assertIn("test/bee/1.png", result.stderr)
        self.assertIn("5 images in 1 file,", result.stdout)

    def test_only_folders_with_the_same_classes(self):
        self.deq("data", "pack", "set", "packed")
        self.assertIn("must be an image folder", self.refused("data", "pack", "packed", "again"))
        self.put("train", "cow", "0.png")
        self.assertIn("train/ and test/", self.refused("data", "pack", "set", "other"))


class PackedTraining(VisionTest):
    def test_packed_images_train_to_the_same_bits(self):
        self.deq("data", "pack", "images", "packed")
        for transform in ("cifar10", "imagenet"):
            settings = ("--set", "train.epochs=1", "--set", f"data.transform={transform}")
            self.train_squares(f"folder-{transform}", *settings)
            self.train_squares(f"packed-{transform}", *settings, "--set", "data.format=packed", "--set",
                               "data.path=packed")
            self.assertEqual(self.weights(f"folder-{transform}"), self.weights(f"packed-{transform}"))


class Prepare(DataTest):
    def archive(self, name, members, mode="w:gz"):
        """Of (name, bytes) or TarInfo."""
        path = self.folder / name
        with tarfile.open(path, mode) as archive:
            for member in members:
                if isinstance(member, tarfile.TarInfo):
                    archive.addfile(member)
                else:
                    info = tarfile.TarInfo(member[0])
                    info.size = len(member[1])
                    archive.addfile(info, io.BytesIO(member[1]))
        return name

    def members(self, prefix):
        root = self.folder / "set"
        return [(f"{prefix}{path.relative_to(root)}", path.read_bytes()) for path in sorted(root.rglob("*.png"))]

    def test_folders_in_every_compression(self):
        for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tar.xz", "w:xz")):
            out = "out-" + mode.replace(":", "")
            found = self.look("prepare", self.archive(name, self.members("some/where/"), mode), out)
            self.assertEqual(found["path"], f"{out}/some/where")
            self.assertEqual(found["splits"], self.look("summary", "set")["splits"])
            for line in ('format = "folder"', f'path = "{out}/some/where"', "classes = 2"):
                self.assertIn(line, found["config"])

    def test_what_it_prints_trains(self):
        found = self.look("prepare", self.archive("a.tar", self.members(""), "w"), "out")
        (self.folder / "c.toml").write_text(
            'experiment = "vision"\n' + found["config"] +
            "channels = [8, 8]\ngroups = 4\nhead_channels = [4, 4]\nfinal_channels = 16\n"
            "[train]\nbatch_size = 4\nsteps = 1\n")
        self.deq("train", "c.toml", "--set", "data.image_size=8", "--out", "run", "--json")

    def test_damaged_images_are_named_and_the_rest_is_kept(self):
        members = [(name, b"text" if name == "test/ant/1.png" else content)
                   for name, content in self.members("")]
        result = self.deq("data", "prepare", self.archive("a.tar", members, "w"), "out", status=1)
        self.assertIn("test/ant/1.png: it is neither JPEG nor PNG", result.stdout)
        self.assertTrue((self.folder / "out/train").is_dir())

    def test_nothing_gets_out_of_the_folder(self):
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, ".."
        inside = self.members("inner/")
        for name, members in (("up", [("../escaped", b"x"), *inside]),
                              ("deep", [("inner/../../escaped", b"x"), *inside]),
                              ("link", [link, ("link/escaped", b"x"), *inside]),
                              ("plain", [link, *inside])):
            archive = self.archive(name + ".tar.gz", members)
            self.assertIn(archive, self.refused("data", "prepare", archive, "out", status=1), name)
        absolute = self.archive("absolute.tar.gz", [(f"{self.folder}/escaped", b"x"), *inside])
        self.deq("data", "prepare", absolute, "out", status=1)
        self.assertFalse((self.folder / "escaped").exists())

    def test_what_is_no_archive_of_images(self):
        whole = (self.folder / self.archive("whole.tar.gz", self.members(""))).read_bytes()
        (self.folder / "half.tar.gz").write_bytes(whole[:len(whole) // 2])
        (self.folder / "text.tar.gz").write_text("hello")
        self.archive("empty.tar", [("readme.txt", b"x")], "w")
        for name in ("half.tar.gz", "text.tar.gz", "empty.tar"):
            self.assertIn(name, self.refused("data", "prepare", name, "new/newer/out", status=1))
        self.assertIn("nowhere.tar", self.refused("data", "prepare", "nowhere.tar", "out"))
        self.assertIn("set", self.refused("data", "prepare", "whole.tar.gz", "set"))

    def test_without_the_program_tar(self):
        self.archive("a.tar", self.members(""), "w")
        message = self.refused("data", "prepare", "a.tar", "out", status=1, env={**os.environ, "PATH": "/"})
        self.assertIn("tar is missing", message)

    def test_cifar_10(self):
        classes = [f"class{i}" for i in range(10)]
        batch = b"".join(bytes([i % 10]) + bytes([i % 256]) * 3072 for i in range(10000))
        files = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        members = [("cifar-10-batches-bin/batches.meta.txt", "\n".join(classes).encode())]
        members += [(f"cifar-10-batches-bin/{file}", batch) for file in files]
        found = self.look("prepare", self.archive("cifar-10-binary.tar", members, "w"), "out")
        self.assertEqual([split["images"] for split in found["splits"]], [50000, 10000])
        self.assertEqual(found["splits"][0]["classes"], {name: 5000 for name in classes})
        for line in ('format = "cifar10"', 'path = "out"', "image_size = 32", "classes = 10"):
            self.assertIn(line, found["config"])
        path = self.folder / "out/cifar-10-batches-bin/data_batch_3.bin"
        path.write_bytes(bytes([1]) + batch[1:])  # the first image's label was 0
        self.assertEqual(set(self.problems("out")), {"train/class0", "train/class1"})
        path.write_bytes(batch[:-1])
        self.assertEqual(list(self.problems("out")), ["train/"])
        self.assertEqual([split["split"] for split in self.look("summary", "out")["splits"]], ["test"])

    def test_cifar_10_for_python(self):
        pickle = ("cifar-10-batches-py/batches.meta", b"\x80\x02}.")
        archive = self.archive("cifar-10-python.tar.gz", [pickle, ("cifar-10-batches-py/test_batch", b"\x80\x02}.")])
        (self.folder / "cifar-10-batches-py").mkdir()
        (self.folder / pickle[0]).write_bytes(pickle[1])
        rest = " holds the Python version of CIFAR-10, but only the binary version is read (cifar-10-binary.tar.gz)"
        self.assertEqual(self.refused("data", "prepare", archive, "out", status=1), archive + rest)
        for command, *out in (("summary",), ("check",), ("pack", "out")):
            self.assertEqual(self.refused("data", command, "cifar-10-batches-py", *out), "cifar-10-batches-py" + rest)


class Misuse(DataTest):
    def test_no_images_there(self):
        (self.folder / "empty").mkdir()
        for command in (["summary"], ["check"]):
            self.assertIn("nowhere is no folder", self.refused("data", *command, "nowhere"))
            self.assertIn("holds no images", self.refused("data", *command, "empty"))
        self.assertIn("holds no images", self.refused("data", "pack", "empty", "out"))

    def test_help(self):
        for command in ("summary", "check", "pack", "prepare", "make"):
            self.assertIn(command, self.deq("data", "--help").stdout)
            self.assertIn(f"Usage: deq data {command}", self.deq("data", command, "--help").stdout)


class Make(ProgramTest):
    def sudoku(self, out, *arguments):
        return self.make("sudoku", out, *arguments)

    def make(self, kind, out, *arguments):
        """What the program says, and the lines of both tables."""
        said = json.loads(self.deq("data", "make", kind, out, *arguments, "--json").stdout)
        return said, [(self.folder / out / f"{split}.csv").read_text().splitlines() for split in ("train", "test")]

    def test_puzzles_of_both_splits(self):
        for boxes, cells in (("2x3", 36), ("3x3", 81)):
            said, tables = self.sudoku(boxes, "--boxes", boxes, "--train", "30", "--test", "7", "--seed", str(SEED))
            self.assertEqual([split["puzzles"] for split in said["splits"]], [30, 7])
            questions = []
            for lines in tables:
                self.assertEqual(lines[0], "source,question,answer,rating")
                for line in lines[1:]:
                    _, question, answer, rating = line.split(",")
                    self.assertEqual((len(question), len(answer)), (cells, cells))
                    self.assertTrue(all(q in (".", a) for q, a in zip(question, answer)), line)
                    self.assertGreaterEqual(int(rating), 0)
                    questions.append(question)
            self.assertEqual(len(set(questions)), 37)

    def test_mazes_of_both_splits(self):
        for size, cells, path in (("30x30", 900, "100:140"), ("6x9", 59, "8:20")):
            said, tables = self.make("maze", size, "--size", size, "--path", path, "--train", "30", "--test", "7", "--seed", str(SEED))
            self.assertEqual([split["puzzles"] for split in said["splits"]], [30, 7])
            least, most = map(int, path.split(":"))
            questions = []
            for lines in tables:
                self.assertEqual(lines[0], "source,question,answer,rating")
                for line in lines[1:]:
                    _, question, answer, rating = line.split(",")
                    self.assertEqual((len(question), len(answer)), (cells, cells))
                    self.assertEqual(set(question) - {"/"}, set("# SG"))
                    self.assertTrue(all(q == a or (q, a) == (" ", "o") for q, a in zip(question, answer)), line)
                    self.assertEqual(answer.count("o") + 2, int(rating))
                    self.assertTrue(least <= int(rating) <= most, line)
                    questions.append(question)
            self.assertEqual(len(set(questions)), 37)
        self.assertRegex(self.deq("data", "make", "maze", "few", "--size", "5x5", "--path", "5:9", "--test", "1").stdout,
                         r"few/test\.csv: 1 mazes of 5 × 5, [0-9.]+ walls and a path of [5-9]\.0 cells on average")

    def test_the_seed_decides(self):
        few = ("--train", "5", "--test", "5")
        for kind in ("sudoku", "maze"):
            first = self.make(kind, f"{kind}-first", *few, "--seed", "1")[1]
            self.assertEqual(self.make(kind, f"{kind}-again", *few, "--seed", "1")[1], first)
            self.assertNotEqual(self.make(kind, f"{kind}-other", *few, "--seed", "2")[1], first)

    def test_hard_ones_only(self):
        said, _ = self.sudoku("hard", "--train", "10", "--test", "2", "--rating", "12")
        self.assertTrue(all(split["least_rating"] >= 12 for split in said["splits"]), said)

    def test_what_cannot_be_done(self):
        self.deq("data", "make", "sudoku", "out", "--train", "2", "--test", "2", "--boxes", "2x2")
        before = (self.folder / "out/train.csv").read_bytes()
        self.assertIn("exists already", self.refused("data", "make", "sudoku", "out"))
        self.assertEqual((self.folder / "out/train.csv").read_bytes(), before)
        for arguments, why in (
                (["--boxes", "5x5"], "--boxes: must be 2x2, 2x3, 2x4 or 3x3, not 5x5"),
                (["--train", "0"], "--train: must be a whole number above zero, not 0"),
                (["--rating", "-1"], "--rating: must be a whole number, zero or above, not -1"),
                (["--seed", "x"], "--seed: must be a whole number, zero or above, not x")):
            self.assertIn(why, self.deq("data", "make", "sudoku", "new", *arguments, status=2).stderr)
        for arguments, why in (
                (["--size", "30"], "--size: must be two whole numbers from 2 on, like 30x30, not 30"),
                (["--size", "1x30"], "--size: must be two whole numbers from 2 on, like 30x30, not 1x30"),
                (["--path", "7:6"], "like 100:140, the second no smaller than the first, not 7:6"),
                (["--path", "1:6"], "--path: must be two whole numbers from 2 on")):
            self.assertIn(why, self.deq("data", "make", "maze", "new", *arguments, status=2).stderr)
        for arguments, why in (
                (["--size", "200x30"], "a maze has 2 to 100 rows and columns, not 200 × 30"),
                (["--size", "3x3"], "there is no other maze of 3 × 3 with a path of 100 to 140 cells")):
            self.assertIn(why, self.deq("data", "make", "maze", "new", *arguments, status=1).stderr)
        self.assertFalse((self.folder / "new").exists())


class Text(ProgramTest):
    """A corpus in words, looked at and checked as images are."""

    TEXTS = {"train": "the cat sat\non the mat\n\n", "valid": "the dog sat\n", "test": "a cat\n"}

    def setUp(self):
        super().setUp()
        (self.folder / "text").mkdir()
        for name, text in self.TEXTS.items():
            self.write(name, text.encode())

    def write(self, name, content):
        (self.folder / f"text/{name}.txt").write_bytes(content)

    def look(self, command, status=0):
        return json.loads(self.deq("data", command, "text", "--json", status=status).stdout)

    def problems(self):
        return {problem["where"]: problem["what"] for problem in self.look("check", status=1)["problems"]}

    def test_what_is_there(self):
        found = self.look("summary")
        self.assertEqual(found["format"], "text")
        self.assertEqual(found["vocabulary"], 5 + 2)  # with <eos> and <unk>
        self.assertEqual(found["rare"], 4)
        self.assertEqual(found["cutoffs"], [])
        self.assertEqual(found["problems"], [])
        train, valid, _ = found["splits"]
        self.assertEqual({**train}, {"split": "train", "file": "train.txt", "bytes": 24, "lines": 3, "words": 6,
                                     "different": 5, "unknown": 0})
        self.assertEqual((valid["words"], valid["unknown"]), (3, 1))
        text = self.deq("data", "summary", "text").stdout
        for part in ("train: 6 words in 3 lines", "vocabulary: 7 words", "model.cutoffs = []"):
            self.assertIn(part, text)
        self.assertFalse((self.folder / "text/.deq-cache").exists())  # looking changes nothing

    def test_nothing_is_wrong(self):
        self.assertEqual(self.deq("data", "check", "text").stdout, "text: 11 words, 0 problems\n")
        (self.folder / "text/test.txt").unlink()  # which training does not need
        self.assertEqual(self.look("check")["problems"], [])

    def test_what_is_damaged_or_missing(self):
        self.write("valid", b"the caf\xe9\n")
        self.write("test", self.TEXTS["train"].encode())
        self.assertEqual(set(self.problems()), {"valid.txt", "test.txt"})
        self.assertIn("not UTF-8 at line 1, byte 8", self.problems()["valid.txt"])
        self.assertIn("the same text as train.txt", self.problems()["test.txt"])
        self.write("valid", b"un deux trois the\n")
        self.write("test", b"")
        self.assertIn("3 of its 4 words are not in the training text", self.problems()["valid.txt"])
        self.assertIn("empty", self.problems()["test.txt"])
        (self.folder / "text/valid.txt").unlink()
        self.assertIn("nothing to validate on", self.problems()["valid"])
        result = self.deq("data", "summary", "text")
        self.assertIn("deq data check text", result.stderr)

    def test_cutoffs_of_a_larger_text(self):
        config = self.folder / "config.toml"
        config.write_text('experiment = "language"\n[data]\npath = "text"\neval_streams = 1\n[model]\ncutoffs = [2, 5000]\n')
        message = self.deq("train", config, "--out", "run", status=2).stderr
        self.assert_one_sentence(message)
        self.assertFalse((self.folder / "run").exists())
        for part in ("model.cutoffs has 5000", "7 different words", "model.cutoffs = []"):
            self.assertIn(part, message)


if __name__ == "__main__":
    unittest.main()
