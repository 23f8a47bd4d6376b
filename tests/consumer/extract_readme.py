"""Writes the first ```cpp block of a Markdown file to a source file: extract_readme.py IN OUT.

A #line directive makes the compiler's messages point at the Markdown file. The output is left
alone when nothing changed.
"""

import pathlib
import sys


def first_cpp_block(markdown: str) -> tuple[int, list[str]]:
    lines = markdown.splitlines()
    for start, line in enumerate(lines):
        if line.strip() == "```cpp":
            block = []
            for text in lines[start + 1 :]:
                if text.strip() == "```":
                    return start + 2, block
                block.append(text)
            raise SystemExit(f"line {start + 1}: the ```cpp block does not end")
    raise SystemExit("no ```cpp block")


def main() -> None:
    source, target = map(pathlib.Path, sys.argv[1:3])
    number, block = first_cpp_block(source.read_text(encoding="utf-8"))
    text = f'#line {number} "{source}"\n' + "\n".join(block) + "\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
