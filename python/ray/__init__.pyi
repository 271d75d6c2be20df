"""The package, as checkers and editors see it: what arrives late at run time is named here."""

from collections.abc import Callable, Iterator
from logging import Logger
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import Unpack

from ray import (
    _private as _private,
    actor as actor,
    autoscaler as autoscaler,
    cloudpickle as cloudpickle,
    cross_language as cross_language,
    dag as dag,
    exceptions as exceptions,
    experimental as experimental,
    job_config as job_config,
    ray_constants as ray_constants,
    remote_function as remote_function,
    runtime_context as runtime_context,
    runtime_env as runtime_env,
    util as util,
)
from ray._core import (
    ObjectRef as ObjectRef,
    ObjectRefGenerator as ObjectRefGenerator,
    get as get,
    put as put,
    wait as wait,
)
from ray._private.generators import DynamicObjectRefGenerator as DynamicObjectRefGenerator
from ray._private.ids import (
    ActorID as ActorID,
    JobID as JobID,
    NodeID as NodeID,
    PlacementGroupID as PlacementGroupID,
    TaskID as TaskID,
    WorkerID as WorkerID,
)
from ray._private.names import get_actor as get_actor
from ray._private.session import (
    LOCAL_MODE as LOCAL_MODE,
    SCRIPT_MODE as SCRIPT_MODE,
    WORKER_MODE as WORKER_MODE,
)
from ray._private.state import (
    available_resources as available_resources,
    cluster_resources as cluster_resources,
    nodes as nodes,
    timeline as timeline,
)
from ray._private.worker import (
    cancel as cancel,
    get_gpu_ids as get_gpu_ids,
    init as init,
    is_initialized as is_initialized,
    kill as kill,
    shutdown as shutdown,
)
from ray._typing import ActorOptions, TaskOptions
from ray.actor import ActorClass, method as method
from ray.remote_function import RemoteFunction, _RemoteFunction, _RemoteGenerator
from ray.runtime_context import get_runtime_context as get_runtime_context

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

__version__: str
logger: Logger
ObjectID = ObjectRef

class _CountedDecorator(Protocol):
    def __call__(self, function: Callable[_P, Any], /) -> _RemoteFunction[_P, Any]: ...

class _Options(TaskOptions, ActorOptions, total=False): ...

class _Decorator(Protocol):
    @overload
    def __call__(self, target: type[_T], /) -> ActorClass[_T]: ...
    @overload
    def __call__(self, target: Callable[_P, Iterator[_R]], /) -> _RemoteGenerator[_P, _R]: ...
    @overload
    def __call__(self, target: Callable[_P, _R], /) -> RemoteFunction[_P, _R]: ...

@overload
def remote(target: type[_T], /) -> ActorClass[_T]: ...
@overload
def remote(target: Callable[_P, Iterator[_R]], /) -> _RemoteGenerator[_P, _R]: ...
@overload
def remote(target: Callable[_P, _R], /) -> RemoteFunction[_P, _R]: ...
@overload
def remote(
    *, num_returns: int | Literal["streaming", "dynamic"] | None, **options: Unpack[TaskOptions]
) -> _CountedDecorator: ...
@overload
def remote(**options: Unpack[_Options]) -> _Decorator: ...
