"""Writes figures into docs/figures: what was measured as JSON, and a page that is made of it.

    python bench/pages.py          # makes the pages again from the JSON files, after a change here

Each bench calls `write` when it has measured everything. A run of a part (some rows, or a quick
look) goes to bench/partial, so that it does not replace the whole.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import textwrap
from pathlib import Path

import stamp

HERE = Path(__file__).resolve().parent
FIGURES = HERE.parent / "docs" / "figures"
PARTIAL = HERE / "partial"
COLUMNS = 100

# What a page is called, which command writes it, and the module whose `markdown(results)` makes its
# tables. "" is for those that only have sentences.
KINDS = {
    "bench": ("Mobula beside Ray and multiprocessing.Pool", "make bench", "table"),
    "node": ("Nodes, drivers, names and restarts", "bench/run.py --page node", "table"),
    "cluster": ("Several nodes on this machine", "make bench-cluster", "cluster"),
    "memory": ("Objects on disk, and very many of them", "make bench-memory", "memory"),
    "c": ("Between two C processes", "make bench-c", "c_rate"),
    "scaling": ("How costs grow", "make bench-plots", "curve_table"),
    "profile": ("Where the time of a task goes", "bench/profile.py", "profile_table"),
    "proof": ("Kills, a million tasks, idleness, fairness", "make proof", ""),
    "soak": ("Everything at once for a long time", "bench/soak.py", ""),
    "chaos": ("Kills of everything at random", "bench/chaos/run.py", ""),
    "fragment": ("Does the store's memory crumble?", "bench/fragment.py", ""),
}


def bullet(text: str) -> str:
    return textwrap.fill(text, COLUMNS, initial_indent="- ", subsequent_indent="  ")


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table whose first column is text and whose others are figures."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(c.replace("|", "/") for c in row) + " |" for row in rows]


def page(name: str, results: dict) -> str:
    """`name` is a kind, or a kind with "-daemon" behind: everything went through the daemon."""
    kind, daemon = name.removesuffix("-daemon"), name.endswith("-daemon")
    title, command, module = KINDS[kind]
    if daemon:
        title, command = f"{title}, through the daemon", f"MOBULA_FAST_PATH=0 {command}"
    if module:
        body = importlib.import_module(module).markdown(results)
    else:
        body = "\n".join(["## What was seen", "", *map(bullet, results["lines"]), ""])
    head = [f"# {title}", "", f"Written by `{command}`; a change by hand is lost.", ""]
    head += [bullet(line) for line in stamp.lines(results["stamp"])]
    return "\n".join([*head, "", body])


def name_of(kind: str) -> str:
    """What is measured with everything through the daemon has a page of its own."""
    return f"{kind}-daemon" if os.environ.get("MOBULA_FAST_PATH") == "0" else kind


def write(kind: str, results: dict, whole: bool = True, folder: Path | None = None) -> Path:
    """Stamps the results and writes both files. Returns the page's path."""
    folder = folder or (FIGURES if whole else PARTIAL)
    folder.mkdir(parents=True, exist_ok=True)
    name = name_of(kind)
    results = {"stamp": stamp.stamp(), **results}
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    path = folder / f"{name}.md"
    path.write_text(page(name, results))
    print(f"written: {os.path.relpath(path)}", file=sys.stderr)
    return path


def main() -> None:
    for path in sorted(FIGURES.glob("*.json")):
        path.with_suffix(".md").write_text(page(path.stem, json.loads(path.read_text())))


if __name__ == "__main__":
    main()
