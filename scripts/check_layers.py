#!/usr/bin/env python3
"""Checks every #include of our own headers against the table of rooms in docs/architecture.md.

A row of the table is | `room/` | what it holds | the rooms it may use |. A file belongs to the longest
room that its path begins with, below include/deq/, src/ or the root. Within a room everything is
allowed. Public headers include public headers only.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/architecture.md"
SOURCES = ("include/deq", "src", "tools")
ROW = re.compile(r"^\| `([\w/]+)/` \|.*\| ([^|]*) \|$")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
EVERYWHERE = {"deq/version.h"}


def read_table():
    """{room: the rooms that it may use}, in the order of the table."""
    rooms = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        row = ROW.match(line)
        if row:
            rooms[row[1]] = set(re.findall(r"[\w/]+", row[2]))
    return rooms


def room_of(path, rooms):
    """Of a path relative to include/deq, src or the root; None for the umbrella headers."""
    found = [room for room in rooms if path.startswith(room + "/")]
    return max(found, key=len, default=None)


def path_of(include, file):
    """The path that an include names, relative to the rooms; None where it is not ours."""
    if include.startswith("deq/"):
        return include[len("deq/"):] if (ROOT / "include" / include).exists() else None
    for folder in ("src", str(file.parent.relative_to(ROOT)), "tools/deq"):
        if (ROOT / folder / include).exists():
            path = str(pathlib.PurePath(folder) / include)
            return path[len("src/"):] if path.startswith("src/") else path
    return None


def faults_of(file, rooms):
    path = str(file.relative_to(ROOT))
    public = path.startswith("include/")
    relative = re.sub(r"^(include/deq|src)/", "", path)
    own = room_of(relative, rooms)
    if own is None:
        return [] if "/" not in relative else [f"{path}: belongs to no room of the table"]
    faults = []
    for include in INCLUDE.findall(file.read_text(encoding="utf-8")):
        if include in EVERYWHERE:
            continue
        target = path_of(include, file)
        if target is None:
            faults.append(f'{path}: "{include}" is not found')
            continue
        room = room_of(target, rooms)
        if room is None:
            faults.append(f'{path}: "{include}" is an umbrella header, for users alone')
        elif room != own and room not in rooms[own]:
            faults.append(f'{path}: {own} may not use {room} ("{include}")')
        if public and not include.startswith("deq/"):
            faults.append(f'{path}: a public header includes "{include}", which is not installed')
    return faults


def main():
    rooms = read_table()
    order = list(rooms)
    faults = [f"{TABLE.name}: {room} uses {used}, which does not stand above it"
              for room in rooms for used in rooms[room]
              if used not in order or order.index(used) >= order.index(room)]
    files = [file for folder in SOURCES for file in sorted((ROOT / folder).rglob("*"))
             if file.suffix in (".h", ".cpp", ".cu")]
    for file in files:
        if file.name not in ("deq.h", "models.h") or file.parent != ROOT / "include/deq":
            faults += faults_of(file, rooms)
    if faults:
        sys.exit("\n".join(faults))
    print(f"layers: {len(files)} files in {len(rooms)} rooms are as docs/architecture.md says")


if __name__ == "__main__":
    main()
