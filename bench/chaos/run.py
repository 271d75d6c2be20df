"""Kills at random, and an exact look at what they led to.

    .venv/bin/python bench/chaos/run.py [--seed N] [--kills 1000] [--tasks 50000] [--seconds 180] [--cluster]

A `ray start` node with three drivers, each a job, which submit tasks, call actors, put, get, cancel
and find actors by name. Meanwhile workers, actors, zygotes, drivers and now and then the daemon are
killed (kill -9), and clients are stopped for a while. Every run notes its begin and its end in a
file that outlives it, so that afterwards the history can be checked line by line: nothing lost,
nothing run twice that must not, each caller's order kept, every call back in time, nothing left
behind.

A node lives for about a hundred kills. Then it is killed with everybody at work, or its drivers are
told to be calm and what is left is looked at. `--seconds` is the pace: it goes on until there were
that many kills and tasks. Ends with 1 and tells the seed if anything was wrong. `--hold` keeps
everything as it is at the first thing that hangs or raises, for a debugger. A run of 10,000 kills
or more is also written into docs/figures.

With `--cluster` there are four nodes, with drivers on three: spread.py says what is done to them.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from chaos import Chaos
from spread import Spread

sys.path.append(str(Path(__file__).resolve().parent.parent))
import pages  # noqa: E402
import stamp  # noqa: E402

WHOLE = 10_000  # kills: a run that is kept in docs/figures


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="of everything that is chosen (random)")
    parser.add_argument("--kills", type=int, default=1000, help="at least so many (1000)")
    parser.add_argument("--tasks", type=int, default=50_000, help="at least so many (50000)")
    parser.add_argument("--seconds", type=float, default=180, help="for all of them (180)")
    parser.add_argument("--life", type=int, default=100, help="kills in a node's life (100)")
    parser.add_argument(
        "--patience", type=float, default=5, help="seconds until what was killed is gone (5)"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="four nodes, of which daemons and Redis are killed"
    )
    parser.add_argument("--mix", default="", help="weights of what is hit, as in worker=1,driver=9")
    parser.add_argument("--hold", action="store_true", help="keep everything for a debugger")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    return options


def main() -> int:
    options = parse()
    print(f"seed {options.seed}", flush=True)
    began = stamp.stamp()  # what is measured: the tree may change meanwhile
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    root = os.path.realpath(tempfile.mkdtemp(prefix="mobula-chaos-"))
    os.environ["RAY_TMPDIR"] = root
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["RAY_AUTH_TOKEN"] = os.urandom(32).hex()
    if options.hold:
        os.environ["CHAOS_HOLD"] = "1"
    chaos = (Spread if options.cluster else Chaos)(root, options)
    try:
        chaos.run()
    finally:
        chaos.end()
    print(chaos.summary(), flush=True)
    if options.kills >= WHOLE and not options.cluster:
        pages.write("chaos", {"stamp": began, "lines": chaos.lines()})
    if chaos.wrong:
        print(f"seed {options.seed}: {len(chaos.wrong)} wrong, the histories are in {root}")
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
