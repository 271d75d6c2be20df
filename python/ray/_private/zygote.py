"""The process that workers are forked from: it loads what every worker needs, then forks whenever
the daemon asks.

What is imported here costs its time once, at the start, and its memory once, as shared pages.
cloudpickle is the slow one, and the first function that arrives needs it. The core's loop adds the
modules that the driver has loaded (numpy), after the first requests. Nothing here may start a
thread: a fork would not have it.

The process begins for its setup, and may begin once more for another one, in a copy of itself: the
daemon has such a process fork others for drivers of the same interpreter, and for runtime
environments.
"""

import gc
import os
import random  # noqa: F401  (for the workers)
import sys
import traceback  # noqa: F401  (for the workers)

from ray import _core


def load():
    """What every worker needs."""
    import cloudpickle  # noqa: F401  (for the workers)

    from ray import actor, exceptions, remote_function  # noqa: F401  (for the workers)
    from ray._private import (  # noqa: F401  (for the workers)
        concurrency,
        definition,
        futures,
        runtime_env,
        serialization,
        services,
        sites,
        threads,
        worker_main,
    )


def begin(setup: bytes, again: bool) -> "str | None":
    """Gets ready for the workers of a setup; the words of why that can't be done."""
    words = worker_words(setup)
    own, sys.path[:] = sys.path[:], words.get("sys_path", sys.path)
    if again:
        sys.path_importer_cache.clear()  # relative folders mean others now
        _read_environment()
    if "MOBULA_GUEST" in os.environ:  # the driver's packages may lie elsewhere on this machine
        sys.path += [path for path in own if path not in sys.path]
    if "runtime_env" in words:
        from ray._private import environment

        why = environment.prepare(words)
        if why is not None:
            return why
    load()

    from ray._private import threads, worker_main

    threads.begin()
    worker_main.prepare()
    # What is loaded now never becomes garbage; left to the collector, its marks would unshare the
    # pages.
    gc.collect()
    gc.freeze()
    return None


def worker_words(setup: bytes) -> dict:
    """What a setup says to workers: the job's words, and those of the runtime environment after them."""
    import _pickle
    from io import BytesIO

    words, rest = {}, BytesIO(setup)
    while rest.tell() < len(setup):
        words.update(_pickle.load(rest))
    return words


def _read_environment():
    """Makes os.environ what the core has made of the process's environment."""
    found = _core.environment()
    for name in set(os.environb) - set(found):
        del os.environb[name]
    os.environb.update(found)


def main():
    """Serves the daemon's requests; goes on as a worker in each process that it forks."""
    setup = _core.zygote(begin)
    from ray._private import threads, worker_main

    threads.restore()
    worker_main.main(setup)


if __name__ == "__main__":
    # A C program's workers: `python -m ray._private.zygote` stands in its mob_config_t.zygote_argv.
    main()
