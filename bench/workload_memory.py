"""One row about memory, against the API that Mobula and Ray share: `python workload_memory.py ROW
FOLDER COUNT`.

Prints its figure as JSON: {"value": ...}. FOLDER is where objects go that memory has no room for.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

import numpy as np
import procs

import ray

MIB = 1 << 20
ROW, FOLDER, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])


def start(store_mib: int) -> None:
    ray.init(
        num_cpus=2,
        object_store_memory=store_mib * MIB,
        object_spilling_directory=FOLDER,
        include_dashboard=False,
        log_to_driver=False,
    )


def fill(refs: list, count: int, mib: int) -> float:
    """Puts `count` arrays that have nothing in common; the seconds it took."""
    array = np.random.default_rng(1).integers(0, 255, mib * MIB, dtype=np.uint8)
    begin = time.perf_counter()
    for i in range(count):
        array[:8] = i % 251
        refs.append(ray.put(array))
    return time.perf_counter() - begin


def spill() -> float:
    """GB/s at which puts go on when each has to push others out."""
    start(512)
    refs: list = []
    fill(refs, 32, 32)
    return 48 * 32 * MIB / 1e9 / fill(refs, 48, 32)


def random_gets(refs: list) -> float:
    """GB/s of those that were on disk, one get after the other."""
    found, seconds = 0, 0.0
    for i in random.choices(range(len(refs)), k=64):
        begin = time.perf_counter()
        assert ray.get(refs[i])[0] == i % 251
        passed = time.perf_counter() - begin
        if passed > 0.002:  # it was not in memory
            found += 1
            seconds += passed
    return found * 32 * MIB / 1e9 / seconds


def restore_first() -> float:
    start(512)
    refs: list = []
    fill(refs, 64, 32)
    return random_gets(refs)


def restore() -> float:
    start(512)
    refs: list = []
    fill(refs, 64, 32)
    random_gets(refs)
    random_gets(refs)
    return random_gets(refs)


def put_full() -> float:
    """GB/s of puts into a store that is full."""
    start(128)
    refs: list = []
    fill(refs, 300, 1)
    return 500 * MIB / 1e9 / fill(refs, 500, 1)


def get_many() -> float:
    start(512)
    refs = [ray.put(i) for i in range(COUNT)]
    begin = time.perf_counter()
    assert len(ray.get(refs)) == COUNT
    return time.perf_counter() - begin


@ray.remote
def count_of(*values):
    return len(values)


def arguments() -> float:
    start(512)
    refs = [ray.put(i) for i in range(COUNT)]
    ray.get(count_of.remote(1))
    begin = time.perf_counter()
    assert ray.get(count_of.remote(*refs)) == COUNT
    return time.perf_counter() - begin


def returns() -> float:
    start(512)

    @ray.remote(num_returns=COUNT)
    def many():
        return list(range(COUNT))

    ray.get(count_of.remote(1))
    begin = time.perf_counter()
    assert ray.get(many.remote()) == list(range(COUNT))
    return time.perf_counter() - begin


def live_refs() -> float:
    """Bytes of memory that a live reference to a small object takes, in all processes together."""
    start(1024)
    ray.get(count_of.remote(1))

    def size() -> int:
        time.sleep(1)
        me = os.getpid()
        return procs.memory(me, [(me, ""), *procs.family(me, os.environ[procs.MARK])])

    before = size()
    refs = [ray.put(i) for i in range(COUNT)]
    after = size()
    assert len(refs) == COUNT
    return (after - before) / COUNT


print(json.dumps({"value": globals()[ROW]()}), flush=True)
