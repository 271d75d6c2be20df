"""Rows about ray.util: Queue, Pool, joblib, collective.

Run by either system's Python, as a part of workload.py.
"""

from __future__ import annotations

from serve import filled, rate

import ray

ITEMS = 1000
RANKS = 4
REDUCED = 12_500_000  # float64: 100 MB


def square(x):
    return x * x


def queue_items():
    from ray.util.queue import Queue

    queue = Queue()

    def body():
        for item in range(ITEMS):
            queue.put(item)
        for _ in range(ITEMS):
            queue.get()
        return ITEMS

    yield rate(body)
    queue.shutdown(force=True)


def pool_map(cpus):
    def row():
        from ray.util.multiprocessing import Pool

        pool = Pool(cpus)

        def body():
            if pool.map(square, range(10_000))[-1] != 9999**2:
                raise RuntimeError("the map lost an item")
            return 10_000

        yield rate(body)
        pool.terminate()

    return row


def joblib_tasks(cpus):
    def row():
        import joblib

        from ray.util.joblib import register_ray

        register_ray()

        def body():
            calls = (joblib.delayed(square)(x) for x in range(1000))
            with joblib.parallel_config(backend="ray", n_jobs=cpus):
                joblib.Parallel()(calls)
            return 1000

        yield rate(body)

    return row


@ray.remote(num_cpus=0)
class Rank:
    """One of those whose arrays are summed; it needs no CPU of its own to be made."""

    def __init__(self, rank):
        self.rank = rank
        self.array = filled(REDUCED) * 1e-300  # it is summed again and again

    def join(self):
        from ray.util import collective

        collective.init_collective_group(RANKS, self.rank, "gloo")

    def allreduce(self):
        from ray.util import collective

        collective.allreduce(self.array)

    def get(self):
        return self.array

    def set(self, array):
        self.array[:] = array


def allreduce():
    ranks = [Rank.remote(rank) for rank in range(RANKS)]
    ray.get([rank.join.remote() for rank in ranks])

    def body():
        ray.get([rank.allreduce.remote() for rank in ranks])
        return 1

    yield rate(body)
    for rank in ranks:
        ray.kill(rank)


def allreduce_by_hand():
    ranks = [Rank.remote(rank) for rank in range(RANKS)]

    def body():
        first, *others = ray.get([rank.get.remote() for rank in ranks])
        total = first.copy()
        for other in others:
            total += other
        ref = ray.put(total)
        ray.get([rank.set.remote(ref) for rank in ranks])
        return 1

    yield rate(body)
    for rank in ranks:
        ray.kill(rank)


def rows(cpus: int) -> dict:
    return {
        "queue_items": queue_items,
        "pool_map": pool_map(cpus),
        "joblib_tasks": joblib_tasks(cpus),
        "allreduce": allreduce,
        "allreduce_by_hand": allreduce_by_hand,
    }
