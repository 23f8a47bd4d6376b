"""Runs an example and compares what it prints with the comment on top: check_output.py SOURCE PROGRAM.

The comment holds a line "Expected output (numbers to P%):" and, after an empty one, the output,
indented by two blanks more. Text must be the same up to the width of its blanks; a number may
differ by P percent, because processors round differently and a training amplifies it.
"""

import pathlib
import re
import subprocess
import sys

HEADING = re.compile(r"// Expected output \(numbers to (\d+)%\):")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")


def expected_output(source):
    """The tolerance and the lines of the comment."""
    lines = iter(source.splitlines())
    for line in lines:
        if found := HEADING.fullmatch(line):
            break
    else:
        raise SystemExit('no line "// Expected output (numbers to P%):"')
    block = []
    for line in lines:
        if not line.startswith("//"):
            break
        block.append(line.removeprefix("//").removeprefix("   "))
    while block and not block[0]:
        block.pop(0)
    if not block:
        raise SystemExit("the expected output is empty")
    return int(found[1]) / 100, block


def differs(expected, actual, tolerance):
    """Whether two lines differ."""
    if NUMBER.sub("#", expected).split() != NUMBER.sub("#", actual).split():
        return True
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(actual))
    return any(abs(float(a) - float(b)) > tolerance * abs(float(a)) for a, b in pairs)


def differences(expected, actual, tolerance):
    """What is wrong, one sentence per line."""
    if len(expected) != len(actual):
        return [f"{len(expected)} lines were expected, there are {len(actual)}"]
    return [f'expected "{a}", got "{b}"'
            for a, b in zip(expected, actual) if differs(a, b, tolerance)]


def main():
    source, program = sys.argv[1:3]
    tolerance, expected = expected_output(pathlib.Path(source).read_text(encoding="utf-8"))
    run = subprocess.run([program], stdout=subprocess.PIPE, text=True)
    print(run.stdout, end="")
    wrong = differences(expected, run.stdout.splitlines(), tolerance)
    for line in wrong:
        print(f"{source}: {line}", file=sys.stderr)
    sys.exit(run.returncode != 0 or bool(wrong))


if __name__ == "__main__":
    main()
