"""The process that workers are forked from: it loads what every worker needs, then forks whenever the daemon asks.

What is imported here costs its time once, at the start, and its memory once, as shared pages. cloudpickle is the slow
one, and the first function that arrives needs it. The core's loop adds the modules that the driver has loaded (numpy),
after the first requests. Nothing here may start a thread: a fork would not have it.
"""

import gc
import os
import random  # noqa: F401  (for the workers)
import traceback  # noqa: F401  (for the workers)

import cloudpickle  # noqa: F401  (for the workers)

from ray import _core, actor, exceptions, remote_function  # noqa: F401  (for the workers)
from ray._private import definition, serialization, services, worker_main  # noqa: F401  (for the workers)

# Libraries of linear algebra start threads when they are loaded, unless told otherwise.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main():
    """Serves the daemon's requests; goes on as a worker in each process that it forks."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    # What is loaded now never becomes garbage; left to the collector, its marks would unshare the pages.
    gc.collect()
    gc.freeze()
    setup = _core.zygote()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    worker_main.main(setup)
