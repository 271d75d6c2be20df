"""What a user can have called while a graph of dask's is computed: `RayDaskCallback`."""

import contextlib
from typing import Any, NamedTuple

from dask.callbacks import Callback

import ray

__all__ = ["ProgressBarCallback", "RayCallback", "RayDaskCallback", "local_ray_callbacks"]


class RayCallback(NamedTuple):
    """The functions of a RayDaskCallback; None where there is none."""

    ray_presubmit: Any = None
    ray_postsubmit: Any = None
    ray_pretask: Any = None
    ray_posttask: Any = None
    ray_postsubmit_all: Any = None
    ray_finish: Any = None


class RayDaskCallback(Callback):
    """dask's Callback with further functions, which are given by name or defined in a subclass:

    - ray_presubmit(task, key, deps): before a task is submitted. If it returns something, there is
      no task, and that is the result.
    - ray_postsubmit(task, key, deps, object_ref): after it was submitted.
    - ray_pretask(key, object_refs): in the worker, before the task runs; `object_refs` are the
      values that it depends on.
    - ray_posttask(key, result, pre_state): in the worker, after it; `pre_state` is what ray_pretask
      has returned.
    - ray_postsubmit_all(object_refs, dsk): after all were submitted; the results' references.
    - ray_finish(result): at the end.

        class Told(RayDaskCallback):
            def _ray_postsubmit(self, task, key, deps, object_ref):
                print("submitted", key)

        with Told():
            x.compute(scheduler=ray_dask_get)
    """

    ray_active = set()

    def __init__(self, **functions):
        for name in RayCallback._fields:
            function = functions.pop(name, None)
            if function is not None:
                setattr(self, "_" + name, function)
        super().__init__(**functions)

    @property
    def _ray_callback(self):
        return RayCallback(*(getattr(self, "_" + name, None) for name in RayCallback._fields))

    def __enter__(self):
        RayDaskCallback.ray_active.add(self._ray_callback)
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        RayDaskCallback.ray_active.discard(self._ray_callback)

    def register(self) -> None:
        """It holds from now on, for every computation."""
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().register()

    def unregister(self) -> None:
        """It holds no more."""
        RayDaskCallback.ray_active.discard(self._ray_callback)
        super().unregister()


@contextlib.contextmanager
def local_ray_callbacks(callbacks: "list | None" = None):
    """The functions that hold for one computation: these, or those that are active. A computation
    inside of another one has none of the active ones.

        with local_ray_callbacks() as callbacks:
            ...
    """
    if callbacks is not None:
        yield [
            one._ray_callback if isinstance(one, RayDaskCallback) else RayCallback(*one)
            for one in callbacks
        ]
        return
    active, RayDaskCallback.ray_active = RayDaskCallback.ray_active, set()
    try:
        yield list(active)
    finally:
        RayDaskCallback.ray_active = active


class ProgressBarCallback(RayDaskCallback):
    """A bar of tqdm that counts the tasks of a computation as they are done.

    with ProgressBarCallback():
        x.compute(scheduler=ray_dask_get)
    """

    def __init__(self):
        super().__init__()
        self._refs = []

    def _ray_postsubmit(self, task, key, deps, object_ref):
        self._refs.append(object_ref)

    def _ray_postsubmit_all(self, object_refs, dsk):
        from tqdm import tqdm

        waiting, self._refs = self._refs, []
        with tqdm(total=len(waiting)) as bar:
            while waiting:
                # what is done is let go of
                done, waiting = ray.wait(waiting, num_returns=1, fetch_local=False)
                more, waiting = (
                    ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
                    if waiting
                    else ([], [])
                )
                bar.update(len(done) + len(more))
                del done, more
