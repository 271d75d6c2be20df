"""Everything at once for a long time: tasks, actors, objects on disk, workers that are killed. Is
anything left over?

    .venv/bin/python bench/soak.py [--minutes 30]

Checks every result. Prints, each minute, memory and descriptors of daemon and driver, then how they
grew after the first tenth of the time. A run of 30 minutes or more is also written into
docs/figures, a shorter one into bench/partial.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import time

import numpy as np
import pages

import ray
from ray import _core

MIB = 1 << 20
SETTLE = 0.1  # of the time: until pools and caches have their size


@ray.remote(max_retries=-1)
def add(a, b):
    return a + b


@ray.remote(max_retries=-1)
def total(array):
    return int(array.sum())


@ray.remote(max_retries=-1)
def nested(count):
    return sum(ray.get([add.remote(i, 1) for i in range(count)]))


@ray.remote(max_retries=-1)
def boxed(size):
    return [ray.put(np.ones(size, dtype=np.uint8)) for _ in range(5)]


@ray.remote
class Counter:
    def __init__(self):
        self.count, self.kept = 0, None

    def add(self, number):
        self.count += number
        return self.count

    def keep(self, wrapped):
        self.kept = wrapped
        return len(wrapped)


def anonymous(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def workers(daemon: int) -> list[int]:
    with open(f"/proc/{daemon}/task/{daemon}/children") as file:
        found = []
        for pid in map(int, file.read().split()):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    title = line.read()
                    if title.startswith(b"ray::") and b"zygote" not in title:
                        found.append(pid)
            except OSError:
                pass
        return found


class Soak:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.objects: list = []
        self.kills = self.rounds = self.actors = 0
        self.daemon = _core.session()["daemon_pid"]

    def round(self) -> None:
        rng = self.rng
        ones = [add.remote(i, 1) for i in range(500)]
        many = [nested.remote(20) for _ in range(5)]
        size = rng.randrange(1, 6 * MIB)
        self.objects.append((ray.put(np.full(size, 1, dtype=np.uint8)), size))
        while sum(size for _, size in self.objects) > 250 * MIB:
            self.objects.pop(rng.randrange(len(self.objects)))
        chosen = rng.sample(self.objects, min(4, len(self.objects)))
        sums = [total.remote(ref) for ref, _ in chosen]
        box = boxed.remote(rng.randrange(100, MIB))
        if rng.random() < 0.3:
            self.kill()
        assert ray.get(ones) == [i + 1 for i in range(500)]
        assert ray.get(many) == [210] * 5
        assert ray.get(sums) == [size for _, size in chosen]
        assert all(part.sum() == len(part) for part in ray.get(ray.get(box)))
        if self.rounds % 5 == 0:
            self.actor()
        self.rounds += 1

    def actor(self) -> None:
        counter = Counter.remote()
        try:
            assert ray.get([counter.add.remote(1) for _ in range(50)]) == list(range(1, 51))
            ray.get(counter.keep.remote([ref for ref, _ in self.objects[:3]]))
            if self.rng.random() < 0.5:
                ray.kill(counter)
        except ray.exceptions.RayActorError:
            pass  # it was killed
        self.actors += 1

    def kill(self) -> None:
        # The zygote has a parent's place too, and is replaced when it dies; it is left alone here.
        pids = workers(self.daemon)[2:]
        if pids:
            try:
                os.kill(self.rng.choice(pids), signal.SIGKILL)
                self.kills += 1
            except ProcessLookupError:
                pass

    def sample(self) -> dict[str, int]:
        me = os.getpid()
        return {
            "daemon KiB": anonymous(self.daemon) >> 10,
            "driver KiB": anonymous(me) >> 10,
            "daemon fds": descriptors(self.daemon),
            "driver fds": descriptors(me),
        }


def slope(samples: list[tuple[float, dict]], key: str) -> float:
    """By least squares, per hour."""
    xs, ys = [at / 3600 for at, _ in samples], [sample[key] for _, sample in samples]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    below = sum((a - x) ** 2 for a in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / below if below else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    lines: list[str] = []

    def tell(text: str) -> None:
        lines.append(text.strip())
        print(text, flush=True)

    ray.init(num_cpus=4, object_store_memory=128 * MIB, log_to_driver=False)
    soak, samples, begin = Soak(options.seed), [], time.monotonic()
    due = 0.0
    while (passed := time.monotonic() - begin) < options.minutes * 60:
        soak.round()
        if passed >= due:
            due = passed + min(60, options.minutes * 6)
            samples.append((passed, soak.sample()))
            text = ", ".join(f"{key} {value:,}" for key, value in samples[-1][1].items())
            tell(f"{passed / 60:5.1f} min, {soak.rounds:,} rounds, {soak.kills} kills: {text}")
    late = [sample for sample in samples if sample[0] >= options.minutes * 60 * SETTLE]
    for key in samples[-1][1]:
        tell(f"{key}: {slope(late, key):+,.0f} per hour")
    soak.objects.clear()
    time.sleep(2)
    whole, free = (
        f()["object_store_memory"] / MIB for f in (ray.cluster_resources, ray.available_resources)
    )
    tell(f"of the store's {whole:.0f} MiB, {free:.1f} are free after all was dropped")
    ray.shutdown()
    pages.write("soak", {"minutes": options.minutes, "lines": lines}, options.minutes >= 30)


if __name__ == "__main__":
    main()
