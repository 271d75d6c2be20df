"""Does the store's memory crumble? A long mix of sizes and lifetimes in three processes, then how
much is still usable.

    .venv/bin/python bench/fragment.py [--seconds 60] [--store 512]

Usable is what lives plus what the driver can still put, in arrays of 1 MiB, before anything has to
go to disk; of the store's size. Prints a line every tenth of the time. The last one is also written
into docs/figures if the time and the store's size are the usual ones, else into bench/partial.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np
import pages

import ray
from ray.util.state import list_objects

MIB = 1 << 20
SECONDS, STORE_MIB = 60, 512


def size_of(rng: random.Random, store: int) -> int:
    """From a hundred bytes to a twentieth of the store; most are small, most bytes are in large
    ones.
    """
    return min(int(rng.lognormvariate(9, 3)) + 100, store // 20)


class Churn:
    """Puts and drops: at most `share` bytes live, and some live very long."""

    def __init__(self, seed: int, share: int, store: int) -> None:
        self.rng, self.share, self.store = random.Random(seed), share, store
        self.source = np.random.default_rng(1).integers(0, 255, store // 20 + 1, dtype=np.uint8)
        self.kept: list = []
        self.bytes = self.puts = 0

    def drop(self) -> None:
        # Mostly of the younger half: the old ones stay, and lie between the others.
        at = self.rng.randrange(len(self.kept))
        if self.rng.random() < 0.8:
            at = max(at, self.rng.randrange(len(self.kept)))
        self.kept[at], self.kept[-1] = self.kept[-1], self.kept[at]
        _, size = self.kept.pop()
        self.bytes -= size

    def run(self, seconds: float) -> tuple[int, int]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(50):
                size = size_of(self.rng, self.store)
                while self.kept and self.bytes + size > self.share:
                    self.drop()
                self.kept.append((ray.put(self.source[:size]), size))
                self.bytes += size
                self.puts += 1
        return self.bytes, self.puts

    def fill(self) -> int:
        """How many MiB can be put before something goes to disk."""
        refs = []
        while not list_objects(filters=[("state", "=", "SPILLED")], limit=1):
            refs.append(ray.put(self.source[:MIB]))
            if len(refs) > self.store // MIB:
                break
        return len(refs) - 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--store", type=int, default=STORE_MIB, help="in MiB")
    options = parser.parse_args()
    store = options.store * MIB
    ray.init(num_cpus=3, object_store_memory=store, log_to_driver=False)
    here = Churn(1, store // 5, store)
    others = [ray.remote(Churn).remote(seed, store // 5, store) for seed in (2, 3)]
    for _ in range(10):
        running = [other.run.remote(options.seconds / 10) for other in others]
        done = [here.run(options.seconds / 10), *ray.get(running)]
        live, puts = sum(size for size, _ in done), sum(count for _, count in done)
        spilled = len(list_objects(filters=[("state", "=", "SPILLED")], limit=10**6))
        print(f"{puts:,} puts, {live / MIB:.0f} MiB live, {spilled} objects on disk", flush=True)
    filled = here.fill()
    last = (
        f"{options.seconds:g} s of a store of {options.store} MiB, {puts:,} puts, "
        f"{live / MIB:.0f} MiB live: the driver can put {filled} MiB more, "
        f"usable {100 * (live + filled * MIB) / store:.1f} %"
    )
    print(last)
    ray.shutdown()
    usual = (options.seconds, options.store) == (SECONDS, STORE_MIB)
    pages.write("fragment", {"lines": [last]}, whole=usual)


if __name__ == "__main__":
    main()
