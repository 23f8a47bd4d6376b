#!/usr/bin/env python3
"""Writes docs/python-api.md from the stubs and the Python files of the package; --check only says whether it is current.

What is shown are the names of __all__: signatures and docstrings as they stand in python/deq."""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/deq"
TARGET = ROOT / "docs/python-api.md"
# What a file says it exports, and where that is written, in the order in which a reader wants it.
PARTS = {
    "`deq`": ("__init__.py", ["layer.py", "stream.py", "mixing.py", "jacobian.py", "_core.pyi", "dropout.py", "runs.py", "training.py", "torchdeq.py"]),
    "`deq.models`": ("models/__init__.py", ["models/_model.py", "models/images.py", "models/language.py", "models/reasoning.py", "_core.pyi"]),
}
INTRODUCTION = """<!-- Made by scripts/python_reference.py from python/deq; a test checks. -->

# Python API

`import deq`. [python.md](python.md) shows it at work; [api.md](api.md) is the C++ library behind it. Options have their fields as
properties, a `replace(...)` that gives a changed copy, and a `to_dict()`."""
# All options have them.
COMMON = {"replace", "to_dict"}


def exported(file):
    tree = ast.parse((PACKAGE / file).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
    raise SystemExit(f"python/deq/{file} has no __all__")


def signature(node, name):
    arguments = ast.unparse(node.args)
    for self in ("self, *, ", "self, ", "self"):
        if arguments.startswith(self):
            arguments = arguments[len(self) :]
            break
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and name == node.name else ""
    return f"{name}({arguments}){returns}"


def is_property(node):
    return any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in node.decorator_list)


def prose(node):
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def is_shown(name):
    return name == "__init__" or not name.startswith("_") and name != "extra_repr"


def members(node):
    """A class's signature, then a line for each of its methods and properties."""
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and is_shown(m.name)]
    made = [m for m in methods if m.name == "__init__"]
    options = {argument.arg for m in made for argument in m.args.kwonlyargs}
    yield signature(made[0], node.name) if made else node.name, []
    for method in methods:
        if method.name == "__init__" or (options and method.name in COMMON) or method.name in options:
            continue
        text = prose(method)
        if is_property(method):
            shown = f"{method.name}: {ast.unparse(method.returns)}"
        else:
            shown = signature(method, method.name)
        yield None, f"- `{shown}`" + (f": {text}" if text else "")


def section(node):
    if isinstance(node, ast.FunctionDef):
        return f"### `{node.name}`\n\n```python\n{signature(node, node.name)}\n```\n\n{prose(node)}"
    (title, _), *rest = members(node)
    lines = [line for _, line in rest]
    bases = [ast.unparse(base) for base in node.bases]
    made = title if title != node.name else f"class {node.name}" + (f"({', '.join(bases)})" if bases else "")
    parts = [f"### `{node.name}`", f"```python\n{made}\n```", prose(node), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part)


def reference():
    sections = [INTRODUCTION]
    for title, (names_file, files) in PARTS.items():
        names = exported(names_file) - {"__version__", "models"}
        sections.append(f"## {title}")
        for file in files:
            tree = ast.parse((PACKAGE / file).read_text())
            shown = [n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name in names]
            sections += [section(node) for node in shown]
            names -= {node.name for node in shown}
        if names:
            sys.exit(f"not found in {', '.join(files)}: {', '.join(sorted(names))}")
    return "\n\n".join(sections) + "\n"


def main():
    text = reference()
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET.relative_to(ROOT)} is out of date; scripts/python_reference.py writes it")
    elif sys.argv[1:]:
        sys.exit("usage: python_reference.py [--check]")
    else:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
