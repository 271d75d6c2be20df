"""No line of a text file of the project is longer than 110 columns, and none of a page than 100.

Code is written for 100 columns; the ten more are for a string or a path that does not break well.
The folders are walked by name, so that a copy without git is checked too. What is built (build
folders, environments) and drawn (SVG, JSON) is left out.

Usage: test_columns.py SOURCE_ROOT
"""

import os
import sys
import tempfile
import unittest

FOLDERS = [".ci", "bench", "docs", "examples", "include", "python", "scripts", "src", "tests"]
ENDINGS = (".c", ".h", ".py", ".py.in", ".md", ".sh", ".toml", ".txt", ".yml", ".yaml")
NAMES = {"Makefile", "meson.build", "meson.options", ".clang-format", ".gitignore", "run"}
SKIPPED = {"__pycache__", "node_modules", "build", "dist"}
LIMIT, PAGE_LIMIT = 110, 100
SOURCE = ""


def is_text(name):
    return name.endswith(ENDINGS) or name in NAMES


def text_files(root):
    """Of the root itself only the files, of the known folders everything below."""
    for name in sorted(os.listdir(root)):
        if is_text(name) and os.path.isfile(os.path.join(root, name)):
            yield name
    for top in FOLDERS:
        for path, folders, names in os.walk(os.path.join(root, top)):
            # tests/build holds tests; a build folder lies at the root, or inside of another tree
            inside = os.path.relpath(path, root)
            folders[:] = [
                name
                for name in sorted(folders)
                if (name not in SKIPPED or os.path.join(inside, name) == "tests/build")
                and not name.startswith((".venv", ".mesonpy", "build-"))
            ]
            yield from (os.path.join(inside, name) for name in sorted(names) if is_text(name))


def long_lines(root):
    """`path:line: columns` of each line that is too long. A tab is as wide as a make rule's: 8."""
    found, seen = [], 0
    for path in text_files(root):
        seen += 1
        limit = PAGE_LIMIT if path.endswith(".md") else LIMIT
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                columns = len(line.rstrip("\n").expandtabs(8))
                if columns > limit:
                    found.append(f"{path}:{number}: {columns} columns")
    return found, seen


class Columns(unittest.TestCase):
    maxDiff = None

    def test_no_line_is_too_long(self):
        found, seen = long_lines(SOURCE)
        self.assertGreater(seen, 100, "the folders were not found")
        self.assertEqual(found, [])

    def test_a_long_line_is_found_where_it_stands(self):
        with tempfile.TemporaryDirectory() as root:
            for path, width in {
                "Makefile": LIMIT + 1,
                "docs/page.md": PAGE_LIMIT + 1,
                "docs/curve.svg": 500,
                "src/room/a.c": LIMIT,
                "tests/build/b.py": LIMIT + 2,
                "python/build/c.py": LIMIT + 1,
                "build-x/d.c": LIMIT + 1,
            }.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write("short\n" + "x" * width + "\n")
            self.assertEqual(
                long_lines(root)[0],
                [
                    "Makefile:2: 111 columns",
                    "docs/page.md:2: 101 columns",
                    "tests/build/b.py:2: 112 columns",
                ],
            )


if __name__ == "__main__":
    SOURCE = os.path.realpath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
