"""The GPUs of a task: which it may use, and how a worker is told of them."""

import os

from ray import _core
from ray._private import session


def get_gpu_ids() -> list:
    """The GPUs that the running task or actor may use, as the driver numbers them.

    @ray.remote(num_gpus=1)
    def train():
        print(ray.get_gpu_ids())        # [0], say; CUDA_VISIBLE_DEVICES is "0" there
    """
    if not _core.is_connected() or session.mode != session.WORKER_MODE:
        return []
    return [_gpu_name(index) for index in _core.current()["gpu_ids"]]


# In a worker: the driver's own list, read before a task's replaces it in the environment.
_visible_gpus = None


def _gpu_name(index):
    if _visible_gpus is None:
        return index
    name = _visible_gpus[index]
    return int(name) if name.isdigit() else name


# In a worker that has GPUs now: what a task without them is to find again, in a list.
_before_gpus = []


def use(indices):
    """Called in a worker when its next task has other GPUs than the one before, or none again."""
    if indices:
        if not _before_gpus:
            _before_gpus.append(os.environ.get("CUDA_VISIBLE_DEVICES"))
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join([str(_gpu_name(index)) for index in indices])
    elif _before_gpus:
        before = _before_gpus.pop()
        if before is None:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def note_visible():
    """For the workers: remembers which GPUs the driver sees."""
    global _visible_gpus
    from ray._private.services import visible_gpus

    _visible_gpus = visible_gpus()
