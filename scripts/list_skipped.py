#!/usr/bin/env python3
"""How many tests were skipped, and why: list_skipped.py JUNIT [--strict].

JUNIT is what `ctest --output-junit` wrote. --strict fails where a test was skipped for another reason than
hardware that this machine has not."""

import argparse
import collections
import re
import sys
import xml.etree.ElementTree as ElementTree

# What GpuTest (tests/cuda/gpu_test.h) says, and the test of an instruction.
HARDWARE = re.compile(r"no NVIDIA driver was found|hides all GPUs|offers no GPU|no SSE4\.2")


def reasons(case):
    """One for every skipped test of a test program."""
    output = case.findtext("system-out") or ""
    # GoogleTest, then Python's unittest with -v, then pytest with -rs.
    found = re.findall(r"^\S+:\d+: Skipped\n(.+)$", output, re.MULTILINE)
    found += [text for _, text in re.findall(r"\.\.\. skipped (['\"])(.*)\1$", output, re.MULTILINE)]
    for count, text in re.findall(r"^SKIPPED \[(\d+)\] \S+: (.+)$", output, re.MULTILINE):
        found += [text] * int(count)
    if case.find("skipped") is not None and not found:
        said = re.search(r"^skipped: (.+)$", output, re.MULTILINE)
        found.append(said[1] if said else "it does not say why")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("junit")
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()

    counts = collections.Counter()
    for case in ElementTree.parse(arguments.junit).getroot().iter("testcase"):
        counts.update((reason, case.get("name")) for reason in reasons(case))
    print(f"Skipped tests: {counts.total()}")
    for (reason, program), count in sorted(counts.items()):
        print(f"  {count} of {program}: {reason}")
    if arguments.strict:
        others = [reason for reason, _ in counts if not HARDWARE.search(reason)]
        if others:
            sys.exit(f"Skipped for another reason than missing hardware: {'; '.join(sorted(set(others)))}")


if __name__ == "__main__":
    main()
