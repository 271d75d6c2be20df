"""Rows about ray.util: Queue, Pool, joblib.

Run by either system's Python, as a part of workload.py.
"""

from __future__ import annotations

from serve import rate

ITEMS = 1000


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


def rows(cpus: int) -> dict:
    return {
        "queue_items": queue_items,
        "pool_map": pool_map(cpus),
        "joblib_tasks": joblib_tasks(cpus),
    }
