#!/usr/bin/env python3
"""Writes docs/api.md from the public headers and their comments; --check only says whether it is current.

What it reads is the style of include/deq: declarations in `namespace deq`, comments in front of
them (///) or behind members (///<), one blank line or more between things that do not belong
together.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include/deq"
TARGET = ROOT / "docs/api.md"
# In the order in which a reader wants them; what is not named comes last.
ROOMS = ["nn", "solvers", "adjoint", "jacobian", "core", "models", "lab/data", "lab/io", "lab/settings", "lab/trained", "lab/tasks",
         "lab/train", "lab/runs", "lab/distributed", "lab/base"]
INTRODUCTION = """<!-- Made by scripts/api_reference.py from the comments in include/deq; a test checks. -->

# C++ API

`#include <deq/deq.h>` has all that a model of your own needs, in `namespace deq`: the target `deq::deq`. The models of the
paper are in `<deq/models.h>` and `namespace deq::models`: the target `deq::models`. What trains, stores and loads is in
`<deq/lab/…>` and `namespace deq::lab`, header by header: the target `deq::lab`. The [examples](../examples) show it at work,
[own-layer.md](own-layer.md) explains one of them.

A module `FooImpl` is used through its holder `Foo`, as libtorch's own are. Options are aggregates: name the fields that differ
from their defaults. Misuse throws `deq::Error`; numerical trouble never throws, it is named in a `Report`.
"""
SKIPPED = re.compile(r"^(friend\b|~|virtual ~|(class|struct) \w+;)|= delete;$|\) = default;$")


def without_comment(line):
    return line.split("//", 1)[0].rstrip()


def depth(line, opening, closing):
    return line.count(opening) - line.count(closing)


def declarations(lines):
    """Declarations with the comment before each: (comment, code, whether a blank line came first)."""
    comment, code, blank, braces = [], [], True, 0
    for line in lines:
        bare = without_comment(line).strip()
        if not code and not line.strip():
            comment, blank = [], True
            continue
        if not code and line.lstrip().startswith("///<"):  # goes on with the line before
            yield [], [line], False
            continue
        if not code and line.lstrip().startswith("//"):
            if "NOLINT" not in line:
                comment.append(re.sub(r"^\s*///? ?", "", line))
            continue
        if not code and re.fullmatch(r"(public|private|protected):", bare):
            yield [], [bare], blank
            continue
        code.append(line)
        braces += depth(bare, "{", "}") + depth(bare, "(", ")")
        if braces == 0 and bare.endswith((";", "}")):
            yield comment, code, blank
            comment, code, blank = [], [], False


def signature(code):
    """A function without its body or its constructor's initialisers; anything else as it is."""
    text = "\n".join(code)
    last = without_comment(code[-1]).rstrip()
    if not last.endswith("}"):
        return code
    parentheses = 0
    for i, c in enumerate(text):
        parentheses += {"(": 1, ")": -1}.get(c, 0)
        body = c == "{" or (c == ":" and text[i - 1] != ":" and text[i + 1] != ":" and i > text.find("("))
        if parentheses == 0 and body and ")" in text[:i]:
            return (text[:i].rstrip() + ";").split("\n")
    return code


def dedented(code):
    margin = min(len(line) - len(line.lstrip()) for line in code if line.strip())
    return [line[margin:] for line in code]


def is_skipped(code):
    return not is_type(code) and SKIPPED.search(" ".join(without_comment(line).strip() for line in code))


def is_type(code):
    head = " ".join(without_comment(line) for line in code).split("{")[0]
    return re.search(r"^\s*(template\s*<.*?>\s*)?(class|struct)\s+\w+[^;()=]*$", head)


def public_part(code):
    """A class or struct with its public members only, their comments kept."""
    start = next((i for i, line in enumerate(code) if without_comment(line).endswith("{")), None)
    if start is None:  # all on one line
        return code
    public = not re.search(r"\bclass\b", " ".join(code[: start + 1]))
    result = code[: start + 1]
    for comment, member, blank in declarations(code[start + 1 : -1]):
        if member[0] in ("public:", "private:", "protected:"):
            public = member[0] == "public:"
            if public and " public:" not in result:
                result.append(" public:")
            continue
        if not public or is_skipped(member):
            continue
        margin = member[0][: len(member[0]) - len(member[0].lstrip())]
        if blank and not result[-1].endswith(("{", " public:")):
            result.append("")
        result += [f"{margin}// {line}".rstrip() for line in comment]
        result += public_part(member) if is_type(member) else signature(member)
    return result + [code[-1]]


def prose(comment):
    """A comment as Markdown: paragraphs, and what is indented as code."""
    parts, code = [], False
    for line in comment:
        if line.startswith("  ") != code:
            code = not code
            parts.append("```" if not code else "\n```text")
        if not code:  # an asterisk is a star here, unless it stands in `code`
            pieces = line.split("`")
            pieces[::2] = [re.sub(r"([*_<\[|])", r"\\\1", piece) for piece in pieces[::2]]
            line = "`".join(pieces)
        parts.append(line[2:] if code else line)
    return "\n".join(parts + (["```"] if code else []))


def header_reference(path):
    text = path.read_text(encoding="utf-8")
    namespace = re.findall(r"^namespace (deq(?:::models|::lab)?) {$", text, re.M)[-1]
    before, _, inside = text.rpartition(f"namespace {namespace} {{\n")
    inside = inside.rpartition(f"}}  // namespace {namespace}")[0]
    sections, block, comment = [], [], []

    def flush():
        nonlocal block, comment
        if block:
            sections.append("```cpp\n" + "\n".join(block) + "\n```")
            if comment:
                sections.append(prose(comment))
        block, comment = [], []

    opening = [re.sub(r"^// ?", "", line) for line in before.splitlines() if line.startswith("//")]
    if opening:
        sections.append(prose(opening))
    for documented, code, blank in declarations(inside.splitlines()):
        if is_skipped(code):
            continue
        if blank or documented:
            flush()
        comment = comment or documented
        block += public_part(dedented(code)) if is_type(code) else signature(dedented(code))
    flush()
    return sections


def room_of(path):
    """nn, models, lab/train: where a header belongs, subfolders left aside."""
    parts = path.relative_to(HEADERS).parts
    return "/".join(parts[:2]) if parts[0] == "lab" else parts[0]


def reference():
    headers = {}
    for path in sorted(HEADERS.glob("*/**/*.h")):
        headers.setdefault(room_of(path), []).append(path)
    rooms = sorted(headers, key=lambda room: (ROOMS.index(room) if room in ROOMS else len(ROOMS), room))
    parts = [INTRODUCTION.strip(), " · ".join(f"[{room}](#{room.replace('/', '')})" for room in rooms)]
    for room in rooms:
        parts.append(f"## {room}")
        for path in headers[room]:
            sections = header_reference(path)
            if sections:
                parts += [f"### `deq/{path.relative_to(HEADERS)}`", *sections]
    return "\n\n".join(parts) + "\n"


def main():
    text = reference()
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET.relative_to(ROOT)} is out of date; scripts/api_reference.py writes it")
    elif sys.argv[1:]:
        sys.exit("usage: api_reference.py [--check]")
    else:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
