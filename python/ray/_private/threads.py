"""How many threads the libraries of linear algebra use in a worker: as many as its task has CPUs.

The zygote loads them with one, so that it can be forked. What is loaded later reads
OMP_NUM_THREADS, as long as the user has not set it; what is loaded already is told by its own
function.
"""

import os
import sys

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
)

_given = {}  # what the user's environment says
_now = 1


def begin():
    """In the zygote, before anything is loaded: one thread for all of them.

    Each heeds OMP_NUM_THREADS, unless its own variable is set.
    """
    _given.clear()
    for name in VARIABLES:
        if name in os.environ:
            _given[name] = os.environ[name]
            os.environ[name] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"


def restore():
    """In a worker: the user's own variables again."""
    os.environ.update(_given)


def use(cpus: float):
    """The next task has so many CPUs. A number that the user chose stays."""
    global _now
    count = max(1, int(cpus))
    if count == _now or any(_given.get(name) for name in VARIABLES):
        return
    _now = count
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "numpy" in sys.modules:
        for setter in _setters():
            setter(count)


def _setters():
    import ctypes

    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {
            line.split(None, 5)[5].strip() for line in maps if "blas" in line or "libmkl_rt" in line
        }
    for path in paths:
        if ".so" not in path:
            continue
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        found += [getattr(library, name) for name in _SETTERS if hasattr(library, name)][:1]
    return found
