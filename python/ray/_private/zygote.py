"""The process that workers are forked from: it loads what every worker needs, then forks whenever
the daemon asks.

What is imported here costs its time once, at the start, and its memory once, as shared pages.
cloudpickle is the slow one, and the first function that arrives needs it. The core's loop adds the
modules that the driver has loaded (numpy), after the first requests. Nothing here may start a
thread: a fork would not have it.
"""

import gc
import random  # noqa: F401  (for the workers)
import traceback  # noqa: F401  (for the workers)

import cloudpickle  # noqa: F401  (for the workers)

from ray import _core, actor, exceptions, remote_function  # noqa: F401  (for the workers)
from ray._private import (  # noqa: F401  (for the workers)
    concurrency,
    definition,
    futures,
    serialization,
    services,
    sites,
    threads,
    worker_main,
)


def main():
    """Serves the daemon's requests; goes on as a worker in each process that it forks."""
    threads.begin()
    worker_main.prepare()
    # What is loaded now never becomes garbage; left to the collector, its marks would unshare the
    # pages.
    gc.collect()
    gc.freeze()
    setup = _core.zygote()
    threads.restore()
    worker_main.main(setup)


if __name__ == "__main__":
    # A C program's workers: `python -m ray._private.zygote` stands in its mob_config_t.zygote_argv.
    main()
