"""Writes texts, and what Python makes of them, for corpus_test.cpp: corpus_samples.py FOLDER."""

import collections
import pathlib
import random
import sys

BLANKS = [" ", "  ", "\t", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u2000",
          "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"]
LETTERS = "abcDE" + "\x00\x1b\x7f\x80\x84\x86é\u180e\u200b\u2060\ufeff日\U0001f600"
LINE_ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\r\n"]


def draw_text(draw, words, lines):
    def line():
        return "".join(draw.choice(words) + draw.choice(BLANKS) for _ in range(draw.randrange(15)))
    return "".join(draw.choice(BLANKS[:2] + [""]) + line() + draw.choice(LINE_ENDS) for _ in range(lines)) + line()


def tokens(path):
    with open(path, encoding="utf-8") as file:
        return [word for line in file for word in line.split() + ["<eos>"]]


def expected(folder):
    train = tokens(folder / "train.txt")
    counter = collections.Counter(word for word in train if word != "<eos>")
    counts = {"<eos>": train.count("<eos>"), **dict(counter.most_common())}
    counts.setdefault("<unk>", 0)
    numbers = {word: i for i, word in enumerate(counts)}
    lines = [f"{word} {count}" for word, count in counts.items()]
    for split in ["train", "valid", "test"]:
        words = tokens(folder / f"{split}.txt")
        lines.append("".join(f"{numbers.get(word, numbers['<unk>'])} " for word in words))
    return "\n".join(lines) + "\n"


def main():
    draw = random.Random(1)
    for i in range(6):
        folder = pathlib.Path(sys.argv[1]) / str(i)
        folder.mkdir()
        words = ["".join(draw.choices(LETTERS, k=draw.randrange(1, 8))) for _ in range(60)]
        words += ["<unk>", "<eos>"] if i % 2 else []
        for split, known in [("train", words[10:]), ("valid", words), ("test", words)]:
            text = draw_text(draw, known, 100)
            (folder / f"{split}.txt").write_text(text, encoding="utf-8", newline="")
        (folder / "expected").write_bytes(expected(folder).encode())


if __name__ == "__main__":
    main()
