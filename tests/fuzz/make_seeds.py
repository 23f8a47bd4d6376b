#!/usr/bin/env python3
"""Writes what the fuzzers begin with: make_seeds.py FOLDER. A folder a harness, small files of every kind
it reads; in large/ files of megabytes, which are read once; and config.dict, the words of configuration files."""

import io
import json
import pathlib
import re
import struct
import sys
import tarfile
import zlib

SOURCE = pathlib.Path(__file__).resolve().parents[2]


# ---- files of tensors ------------------------------------------------------------------------------

def safetensors(tensors, metadata=None):
    """`tensors`: name → (type, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def column(*numbers):
    return "I64", [len(numbers)], struct.pack(f"<{len(numbers)}q", *numbers)


def letters(text):
    return "U8", [len(text)], text.encode()


SMALL = safetensors({"f": ("F32", [2], struct.pack("<2f", 1, -2)), "h": ("BF16", [1, 2], b"\0\0\x80\x3f"),
                     "n": ("I32", [0, 3], b""), "b": ("BOOL", [2, 1], b"\1\0")}, {"key": "value"})
STATE = {"step": 4, "seconds": 0.5, "lr_scale": 1.0, "skipped": 0, "skipped_in_a_row": 0, "rollbacks": 0,
         "best": 0.25, "best_step": 2, "gamma": 0.2, "held_smoothed": 0.8, "held_sum": 0.0, "held_steps": 0}
CHECKPOINT = safetensors(
    {"weight": ("F32", [2, 1], struct.pack("<2f", 1, 2)), "optimiser/step": column(4)},
    {"format": "deq-checkpoint", "format_version": "1", "checksum": "00000000", "classes": '["cat","dog"]',
     "config": 'experiment = "synthetic"\n', "training_state": json.dumps(STATE)})
INDEX = safetensors(
    {"label": column(0, 1), "shard": column(0, 0), "offset": column(0, 3), "length": column(3, 2),
     "crc32c": column(1, 2), "name_end": column(3, 6), "names": letters("a/1b/2"), "shard_size": column(5)},
    {"format": "deq-packed-images", "version": "1", "classes": '["a","b"]', "checksum": "00000000"})
VOCABULARY = safetensors(
    {"counts": column(2, 3, 0), "ends": column(5, 8, 13), "text": letters("<eos>the<unk>")},
    {"format": "deq-vocabulary", "version": "1", "checksum": "00000000"})
TOKENS = safetensors({"tokens": ("I32", [3], struct.pack("<3i", 1, 2, 0))},
                     {"format": "deq-corpus", "version": "1", "checksum": "00000000"})


def before(text, rest):
    """A text with its length, then the rest, as Parts in fuzz.h takes them apart."""
    return struct.pack("<H", len(text)) + text + rest


# ---- images ------------------------------------------------------------------------------------------

def png(width, height, bits, colour, row, palette=b"", interlaced=0):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
    rows = b"".join(b"\0" + row for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(b"PLTE", palette) if palette else b"")
            + chunk(b"tEXt", b"Comment\0none") + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def jpeg(components, progressive=False, adobe=None):
    """8 × 8 pixels of one colour: every difference is 0, whose Huffman code is the bit 0."""
    def segment(marker, content):
        return struct.pack(">BBH", 0xff, marker, len(content) + 2) + content

    def scan(numbers, first, last):
        bits = len(numbers) * (1 if progressive else 2)
        content = bytes([len(numbers)]) + b"".join(bytes([number, 0]) for number in numbers)
        return segment(0xda, content + bytes([first, last, 0])) + bytes([0xff >> bits])

    frame = struct.pack(">BHHB", 8, 8, 8, components) + b"".join(
        bytes([number, 0x11, 0]) for number in range(1, components + 1))
    table = bytes([1] + 15 * [0, ] + [0])  # one code of one bit, for the value 0
    everything = list(range(1, components + 1))
    scans = scan(everything, 0, 0 if progressive else 63)
    if progressive:
        scans += b"".join(scan([number], 1, 63) for number in everything)
    return (b"\xff\xd8" + (segment(0xee, b"Adobe\0\x64\0\0\0\0" + bytes([adobe])) if adobe is not None else b"")
            + segment(0xdb, b"\0" + 64 * b"\1") + segment(0xc2 if progressive else 0xc0, frame)
            + segment(0xc4, b"\x00" + table) + segment(0xc4, b"\x10" + table) + scans + b"\xff\xd9")


# ---- archives ----------------------------------------------------------------------------------------

def archive(mode, *members):
    """`members`: (name, content), or (name, None, link)."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode=mode) as tar:
        for name, content, *link in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, link[0]
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))
    return result.getvalue()


# ---- metrics -----------------------------------------------------------------------------------------

METRICS = "".join(json.dumps(line) + "\n" for line in (
    {"split": "train", "step": 1, "loss": 2.5, "trace": [1.0, None, 0.25], "stopped.diverged": 0.5},
    {"split": "train", "step": 2, "adjoint_residual": 0.5, "skipped_steps": 2, "rollbacks": 1, "text": "</script>"},
    {"split": "valid", "step": 2, "residual": 0.5, "rho": 1.5, "accuracy": 0.75})).encode()


def configurations():
    for path in sorted((SOURCE / "configs").glob("*/*.toml")):
        text = path.read_text()
        if text.startswith("base") or "\nbase" in text or "experiment =" not in text:
            continue
        yield f"{path.parent.name}-{path.stem}.toml", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).encode()


def dictionary():
    """Keys and names of methods that the reference of the configuration has."""
    text = (SOURCE / "docs/config.md").read_text()
    keys = {part for key in re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE) for part in key.split(".")}
    names = set(re.findall(r'"[\w-]+"', text))
    quoted = [f'"{key}"' for key in sorted(keys)] + ['"' + name.replace('"', r"\x22") + '"' for name in sorted(names)]
    return "".join(f"{word}\n" for word in quoted).encode()


SEEDS = {
    "config": {
        **dict(configurations()),
        "set.toml": b"#--set jacobian.gamma={ schedule = \"linear\", from = 0, to = 1, begin = 0, end = 9 }\n"
                    b"experiment = \"synthetic\"\n",
        "deep.toml": b"a" + b".a" * 400 + b" = 1\n",
    },
    "safetensors": {"small": SMALL, "empty": safetensors({}), "deep": struct.pack("<Q", 512) + b'{"a":' * 60 + b" " * 212},
    "checkpoint": {"whole": CHECKPOINT},
    "packed_images": {"two": before(b"abcde", INDEX)},
    "vocabulary": {"three": before("the \u3000fox\n".encode(), VOCABULARY)},
    "corpus": {"tokens": b"\1" + before(b"the the\n", TOKENS), "damaged": b"\3" + before(b"a b\nc", TOKENS),
               "nothing": b"\1" + before(b"a\n", SMALL), "words": b"\0" + before("the \u00e9\n".encode(), VOCABULARY)},
    "cifar": {"two": before(b"\n".join(b"class%d" % i for i in range(10)), b"\2" + 2 * (b"\1" + 3072 * b"\7"))},
    "png": {"grey": png(9, 3, 1, 0, b"\xaa\x80"), "rgb": png(2, 2, 8, 2, b"abcdef"), "rgba16": png(1, 2, 16, 6, b"abcdefgh"),
            "palette": png(4, 2, 2, 3, b"\x1b", palette=b"abcdefghijkl"), "interlaced": png(1, 1, 8, 4, b"ab", interlaced=1)},
    "jpeg": {"grey": jpeg(1), "rgb": jpeg(3), "progressive": jpeg(3, progressive=True), "inks": jpeg(4, adobe=2)},
    "archive": {"plain.tar": archive("w", ("cat/1.png", b"one"), ("dog/2.png", b"two")),
                "packed.tar.gz": archive("w:gz", ("cat/1.png", b"one")), "link.tar": archive("w", ("out", None, "/etc")),
                "up.tar": archive("w", ("../up", b"x"))},
    "puzzles": {"two": b"source,question,answer,rating\na,1..............1,1234341221434321,3\nb,0000000000000001,1234341221434321,\n",
                "nine": b"source,question,answer\r\n,53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79,"
                        b"534678912672195348198342567859761423426853791713924856961537284287419635345286179\r\n",
                "maze": b"source,question,answer,rating\na,S  ## ##G,Soo##o##G,5\nb,S.G.#.#..,SoG.#.#..,\n",
                "flat": b"source,question,answer,rating\na,S  #/## G,Soo#/##oG,5\n"},
    "metrics": {"lines": METRICS, "torn": METRICS[:-9], "environment": b'{"libdeq": "1", "cores": 2}'},
}


# ---- large inputs, of which ten times their size is more than what a harness spares ------------------

def number_text(number):
    """Distinct words of four letters, the shortest of which a megabyte has room for."""
    return "".join(chr(97 + number // 26 ** place % 26) for place in range(4))


def large():
    """Many small things, which cost more than their bytes: tensors, words, lines, numbers of a line."""
    tensors = {f"layers.{i:05}.weight": ("F32", [1], b"\0\0\0\0") for i in range(30_000)}
    held = {"weight": ("F32", [1 << 18], bytes(1 << 20)), "optimiser/step": column(4)}
    state = {"format": "deq-checkpoint", "format_version": "1", "checksum": "00000000", "classes": '["cat","dog"]',
             "config": 'experiment = "synthetic"\n', "training_state": json.dumps(STATE)}
    words = [number_text(i) for i in range(200_000)]
    counts = column(*[1] * len(words))
    ends = column(*range(4, 4 * len(words) + 1, 4))
    vocabulary = safetensors({"counts": counts, "ends": ends, "text": letters("".join(words))},
                             {"format": "deq-vocabulary", "version": "1", "checksum": "00000000"})
    lines = [json.dumps({"split": "train", "step": i, "loss": 1 / (i + 1), "nfe_forward": i % 30}) for i in range(80_000)]
    traces = [json.dumps({"split": "train", "step": i, "residual_trace": [1] * 1000}) for i in range(2400)]
    return {
        "safetensors": {"tensors": safetensors(tensors), "bytes": safetensors(held)},
        "checkpoint": {"tensors": safetensors(tensors, state), "bytes": safetensors(held, state)},
        "vocabulary": {"words": before(b"the fox\n", vocabulary)},
        "corpus": {"words": b"\2\xff\xff" + " ".join(words).encode(), "text": b"\3\xff\xff" + b"the fox\n" * (1 << 18)},
        "metrics": {"lines": "\n".join(lines).encode() + b"\n", "traces": "\n".join(traces).encode() + b"\n"},
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    for part, all_seeds in ((folder, SEEDS), (folder / "large", large())):
        for harness, seeds in all_seeds.items():
            (part / harness).mkdir(parents=True, exist_ok=True)
            for name, content in seeds.items():
                (part / harness / name).write_bytes(content)
    (folder / "config.dict").write_bytes(dictionary())


if __name__ == "__main__":
    main()
