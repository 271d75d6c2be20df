"""multiprocessing's Pool on actors: `from ray.util.multiprocessing import Pool`."""

from multiprocessing import JoinableQueue, TimeoutError

from ray.util.multiprocessing.pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]
