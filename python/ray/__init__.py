"""Remote functions, actors and shared objects for Python: the API of Ray on Mobula's C core.

    import ray

    @ray.remote
    def square(x):
        return x * x

    print(ray.get([square.remote(i) for i in range(4)]))

This module is imported by every driver and forked into every worker, so it loads only what a first
call needs; everything else arrives when it is first named (see `__getattr__` below).
"""

from ray._core import ObjectRef, ObjectRefGenerator, get, put, wait
from ray._private import object_ref
from ray._private.conflict import refuse_ray_beside
from ray._private.later import lacks, no_attribute
from ray._private.worker import (
    LOCAL_MODE,
    SCRIPT_MODE,
    WORKER_MODE,
    cancel,
    get_gpu_ids,
    init,
    is_initialized,
    kill,
    remote,
    shutdown,
)
from ray._version import version as __version__
from ray.actor import method

refuse_ray_beside(__path__[0])

ObjectID = ObjectRef
lacks(
    ObjectRef,
    "from_random owner_address redis_shard_hash tensor_transport",
)
object_ref.give_to(ObjectRef)

__all__ = [
    "LOCAL_MODE",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "ActorID",
    "DynamicObjectRefGenerator",
    "JobID",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "WorkerID",
    "__version__",
    "available_resources",
    "cancel",
    "cluster_resources",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "wait",
]

_MODULES = frozenset(
    (
        "_private _raylet actor autoscaler cloudpickle cross_language dag exceptions experimental "
        "job_config ray_constants remote_function runtime_context scripts util"
    ).split()
)
_ELSEWHERE = {
    "ActorID": "ray._private.ids",
    "DynamicObjectRefGenerator": "ray._private.generators",
    "JobID": "ray._private.ids",
    "NodeID": "ray._private.ids",
    "PlacementGroupID": "ray._private.ids",
    "TaskID": "ray._private.ids",
    "WorkerID": "ray._private.ids",
    "available_resources": "ray._private.state",
    "cluster_resources": "ray._private.state",
    "get_actor": "ray._private.names",
    "get_runtime_context": "ray.runtime_context",
    "nodes": "ray._private.state",
    "timeline": "ray._private.state",
}


def __getattr__(name):
    if name in _ELSEWHERE:
        import importlib

        value = getattr(importlib.import_module(_ELSEWHERE[name]), name)
        globals()[name] = value
        return value
    if name == "logger":
        import logging

        return logging.getLogger("ray")
    if name in ("state", "worker"):  # where these were before they became private
        import importlib

        return importlib.import_module("ray._private." + name)
    if name in _MODULES:
        import importlib

        return importlib.import_module("ray." + name)
    raise no_attribute(__name__, name)


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES, "logger"})
