"""The backend "ray" of joblib.

The processes are those of a ray.util.multiprocessing.Pool. A pool that a call of Parallel is done
with is kept for the next one: its processes take longer to start than most calls. A large array, or
frame, among the arguments of a call goes to the store once, whatever number of tasks it is given
to, and is read there in place.
"""

import contextlib
import threading

from joblib._parallel_backends import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)

import ray
from ray._private import session
from ray._private.stored import Stored
from ray.util.multiprocessing import Pool

_LARGE = 1 << 20  # bytes of an argument that goes to the store by itself

_kept = {}  # the pool that nobody uses, by what it was made with
_keeping = threading.Lock()


class RayBackend(AutoBatchingMixin, ParallelBackendBase):
    """What `joblib.parallel_config(backend="ray")` chooses, once register_ray was called."""

    # What it takes to hand a batch over is less than a millisecond here.
    MIN_IDEAL_BATCH_DURATION = 0.02
    MAX_IDEAL_BATCH_DURATION = 0.2
    supports_retrieve_callback = True
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, nesting_level=None, inner_max_num_threads=None, ray_remote_args=None, **kw):
        super().__init__(
            nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kw
        )
        self.ray_remote_args = ray_remote_args or {}
        self._pool = None
        self._stored = {}  # id of a large argument to (it, what stands for it)
        self._over = threading.Event()  # see retrieval_context

    def effective_n_jobs(self, n_jobs):
        """How many processes n_jobs stands for: -1 for as many as there are CPUs, -2 for one less,
        and so on.
        """
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs < 0:
            if not ray.is_initialized():
                ray.init()
            return max(int(ray.cluster_resources().get("CPU", 1)) + 1 + n_jobs, 1)
        return n_jobs

    def configure(self, n_jobs=1, parallel=None, prefer=None, require=None, **kw):
        """Gets the processes ready; returns how many there are."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1 and not self.ray_remote_args:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._n_jobs = n_jobs
        self._pool = self._find_pool()
        return n_jobs

    def _key(self):
        return session.epoch, self._n_jobs, self.nesting_level, repr(self.ray_remote_args)

    def _find_pool(self):
        if not ray.is_initialized():
            ray.init()
        with _keeping:
            for key in [key for key in _kept if key[0] != session.epoch]:
                del _kept[key]
            pool = _kept.pop(self._key(), None)
        if pool is None:
            pool = Pool(
                self._n_jobs,
                initializer=_nest,
                initargs=self.get_nested_backend(),
                ray_remote_args=self.ray_remote_args,
            )
        return pool

    def submit(self, func, callback=None):
        """Has a process do a batch of calls."""
        callback = self._telling(callback)
        functions = {id(function): function for function, _, _ in func.items}
        if len(functions) == 1:
            (function,) = functions.values()
            calls = [self._stored_apart(args, kwargs) for _, args, kwargs in func.items]
            return self._pool._submit("many", function, calls, callback, _failing(callback))
        calls = [(f, *self._stored_apart(args, kwargs)) for f, args, kwargs in func.items]
        return self._pool.apply_async(
            _call_each, (calls,), callback=callback, error_callback=_failing(callback)
        )

    def _telling(self, callback):
        """The callback, which also says when there will be no more."""

        def tell(out):
            callback(out)
            if self._is_over():
                self._over.set()

        return tell

    def _is_over(self):
        parallel = self.parallel
        return parallel._aborting or (
            not parallel._iterating and parallel.n_completed_tasks >= parallel.n_dispatched_tasks
        )

    @contextlib.contextmanager
    def retrieval_context(self):
        """Around joblib's fetching of results, which looks for them every 10 ms. Where all of them
        are wanted at once, this waits before until they are there.
        """
        try:
            at_once = not self.parallel.return_generator and self.parallel.timeout is None
            while at_once and not self._is_over():
                self._over.wait(1)
                self._over.clear()
        except AttributeError:  # another version of joblib, which looks every 10 ms then
            pass
        yield

    def _stored_apart(self, args, kwargs):
        if any(map(_is_large, args)) or any(map(_is_large, kwargs.values())):
            args = tuple(self._apart(value) for value in args)
            kwargs = {name: self._apart(value) for name, value in kwargs.items()}
        return args, kwargs

    def _apart(self, value):
        if not _is_large(value):
            return value
        found = self._stored.get(id(value))
        if found is None:
            found = self._stored[id(value)] = value, Stored(ray.put(value))
        return found[1]

    def retrieve_result_callback(self, out):
        """The results of a batch, or the exception that it raised."""
        if isinstance(out, _Failed):
            raise out.error
        return out

    def stop_call(self):
        """A call of Parallel is over."""
        self._stored.clear()

    def terminate(self):
        """Gives the processes back, for the next one who needs such."""
        pool, self._pool = self._pool, None
        self._stored.clear()
        if pool is not None and pool._crew.running:
            with _keeping:
                kept = _kept.setdefault(self._key(), pool)
            if kept is not pool:
                pool.terminate()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready=True):
        """Ends the processes, whatever they are doing."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None
        if ensure_ready:
            self._pool = self._find_pool()


class _Failed:
    """An exception on its way to joblib, which calls back with results and exceptions alike."""

    def __init__(self, error):
        self.error = error


def _failing(callback):
    return lambda error: callback(_Failed(error))


def _is_large(value):
    if hasattr(value, "memory_usage"):  # a frame of pandas
        return int(value.memory_usage().sum()) >= _LARGE
    size = getattr(value, "nbytes", 0)
    return isinstance(size, int) and size >= _LARGE


def _nest(backend, n_jobs):
    """In a process of the pool: what a Parallel inside of a task uses."""
    from joblib import parallel_config

    parallel_config(backend=backend, n_jobs=n_jobs)


def _call_each(calls):
    return [function(*args, **kwargs) for function, args, kwargs in calls]
