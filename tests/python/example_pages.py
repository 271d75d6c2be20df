"""The pages of docs/examples, and a run of what they show.

A page's Python blocks are one program; its text blocks are what that prints, in which any number
with a point may be another. A page that needs a library says so in its first line.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
NAMES = sorted(page.name for page in FOLDER.glob("*.md"))


def text(name: str) -> str:
    return (FOLDER / name).read_text()


def needs(name: str) -> list:
    """The libraries that the page's program needs."""
    said = re.match(r"<!-- needs: (.*) -->\n", text(name))
    return said.group(1).split() if said else []


def blocks(name: str, language: str) -> list:
    return re.findall(rf"^```{language}\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)


def check(name: str, folder: str):
    """Runs the page's program in that folder; it must print what the page says."""
    program = Path(folder) / "page.py"
    program.write_text("\n".join(blocks(name, "python")))
    ran = subprocess.run(
        [sys.executable, program], cwd=folder, capture_output=True, text=True, timeout=110
    )
    assert ran.returncode == 0, ran.stderr
    assert _masked(ran.stdout) == _masked("".join(blocks(name, "text"))), ran.stdout


def _masked(said):
    return re.sub(r"\d+\.\d+", "#.#", said).splitlines()
