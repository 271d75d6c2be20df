"""Tasks and calls a second between two C processes: runs c/rate.c's program, and writes its rows.

    python bench/c_rate.py build/bench/c/bench_rate build/bench/c/libbench_empty.so [SECONDS [ROW]]

With SECONDS or ROW it is a part, and does not replace the figures in docs/figures.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pages


def rows(output: str) -> dict[str, int]:
    """A row a line: its name, then a rate."""
    found = re.findall(r"^(\S.*?)\s+(\d+)/s$", output, re.M)
    return {name: int(rate) for name, rate in found}


def markdown(results: dict) -> str:
    lines = [[name, f"{rate:,}/s"] for name, rate in results["rows"].items()]
    return "\n".join([*pages.table(["row", "a second"], lines), ""])


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    program = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    output = ""
    for line in program.stdout:
        print(line, end="", flush=True)
        output += line
    if program.wait() != 0:
        sys.exit(f"{arguments[0]} ended with {program.returncode}: nothing is written")
    pages.write("c", {"rows": rows(output)}, whole=len(arguments) == 2)


if __name__ == "__main__":
    main()
