"""What the documentation shows is true: links lead somewhere, and code, settings and commands work."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
import unittest

from program import CONFIG, SHORT, SOURCE, ProgramTest

DOCS = SOURCE / "docs"
GUIDES = [DOCS / f"{name}.md" for name in ("getting-started", "own-layer", "choosing", "stability", "mathematics")]
PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """Those that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
                if re.match(r"https?:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                self.assertTrue(file.exists(), f"{page.name} links to {target}")
                if anchor:
                    self.assertIn(anchor, anchors(file), f"{page.name} links to {target}")

    def test_the_readme_has_every_page(self):
        readme = (SOURCE / "README.md").read_text()
        for page in DOCS.glob("*.md"):
            self.assertTrue(f"(docs/{page.name})" in readme, f"README.md has no link to {page.name}")


class Promises(unittest.TestCase):
    def test_are_held_by_tests_that_exist(self):
        page = DOCS / "reliability.md"
        table = page.read_text().split("## Promises")[1].split("\n## ")[0]
        rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
        self.assertGreater(len(rows), 10)
        for row in rows:
            held_by = row.split("|")[3]
            named = re.findall(r"\.\./(tests/[\w/.]+)|`(tests/[\w/.]+)`", held_by)
            self.assertTrue(named, row)
            for paths in named:
                self.assertTrue((SOURCE / "".join(paths)).is_file(), f"{page.name} names {''.join(paths)}")

    def test_every_fuzzer_is_counted(self):
        text = (DOCS / "reliability.md").read_text()
        harnesses = {path.stem for path in (SOURCE / "tests/fuzz").glob("*.cpp")} - {"fuzz"}
        self.assertEqual(set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)), harnesses)


class Code(unittest.TestCase):
    def test_is_part_of_an_example(self):
        examples = {path.name: path.read_text() for path in (SOURCE / "examples").glob("*.cpp")}
        shown = [(page.name, block) for page in GUIDES for block in blocks(page, "cpp")]
        self.assertGreaterEqual(len(shown), 3)
        for page, block in shown:
            self.assertTrue(any(block in source for source in examples.values()),
                            f"{page} shows what no example has:\n{block}")

    def test_the_guide_lists_every_example(self):
        guide = (DOCS / "getting-started.md").read_text()
        for path in (SOURCE / "examples").glob("*.cpp"):
            self.assertIn(f"(../examples/{path.name})", guide)

    def test_the_reference_is_that_of_the_headers(self):
        result = subprocess.run([sys.executable, SOURCE / "scripts/api_reference.py", "--check"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)


class Settings(ProgramTest):
    def test_every_snippet_trains(self):
        shown = [(page.name, block) for page in GUIDES for block in blocks(page, "toml")]
        self.assertGreaterEqual(len(shown), 8)
        for number, (page, block) in enumerate(shown):
            with self.subTest(page=page, snippet=textwrap.shorten(block, 60)):
                config = self.folder / f"{number}.toml"
                config.write_text(f'base = "{CONFIG}"\n{block}')
                self.deq("train", config, *SHORT, "--set", "train.steps=2", "--out", f"run-{number}", "--json")


class Commands(ProgramTest):
    def run_commands(self, page):
        os.symlink(SOURCE / "configs", self.folder / "configs")
        lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
        commands = [shlex.split(line, comments=True) for line in lines if line.startswith("deq ")]
        self.assertGreaterEqual(len(commands), 4)
        for command in commands:
            self.deq(*command[1:])

    def test_getting_started(self):
        self.run_commands(DOCS / "getting-started.md")
        self.assertTrue((self.folder / "comparison.html").is_file())

    def test_stability(self):
        self.train("runs/a")
        self.run_commands(DOCS / "stability.md")


if __name__ == "__main__":
    unittest.main()
