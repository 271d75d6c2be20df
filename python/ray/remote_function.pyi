"""Remote functions, as checkers see them.

An argument may be a reference where the function takes its value. Checkers can't say that of every
parameter: a call that has a reference among its first six arguments by position is let pass whole.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, NoReturn, ParamSpec, TypeVar, overload

from typing_extensions import Unpack

from ray._core import ObjectRef, ObjectRefGenerator
from ray._typing import TaskOptions
from ray.dag.function_node import FunctionNode

_P = ParamSpec("_P")
_R = TypeVar("_R")

DEFAULT_MAX_RETRIES: int

class _Remote(Generic[_P, _R]):
    """The `.remote` of a function with these parameters, which gives a _R."""

    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __call__(self, a: ObjectRef[Any], /, *rest: Any, **kwargs: Any) -> _R: ...
    @overload
    def __call__(self, a: Any, b: ObjectRef[Any], /, *rest: Any, **kwargs: Any) -> _R: ...
    @overload
    def __call__(self, a: Any, b: Any, c: ObjectRef[Any], /, *rest: Any, **kwargs: Any) -> _R: ...
    @overload
    def __call__(
        self, a: Any, b: Any, c: Any, d: ObjectRef[Any], /, *rest: Any, **kwargs: Any
    ) -> _R: ...
    @overload
    def __call__(
        self, a: Any, b: Any, c: Any, d: Any, e: ObjectRef[Any], /, *rest: Any, **kwargs: Any
    ) -> _R: ...
    @overload
    def __call__(
        self, a: Any, b: Any, c: Any, d: Any, e: Any, f: ObjectRef[Any], /, *r: Any, **kwargs: Any
    ) -> _R: ...

class _RemoteFunction(Generic[_P, _R]):
    """A remote function whose calls give a _R: a reference, a generator of them, or, where
    num_returns has a say, anything.
    """

    __name__: str
    __wrapped__: Callable[_P, Any]
    @property
    def _function(self) -> Callable[_P, Any]: ...
    @property
    def remote(self) -> _Remote[_P, _R]: ...
    @overload
    def options(self, **options: Unpack[TaskOptions]) -> _RemoteFunction[_P, _R]: ...
    @overload
    def options(
        self,
        *,
        num_returns: int | Literal["streaming", "dynamic"] | None,
        **options: Unpack[TaskOptions],
    ) -> _RemoteFunction[_P, Any]: ...
    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode: ...
    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn: ...

class RemoteFunction(_RemoteFunction[_P, ObjectRef[_R]], Generic[_P, _R]): ...
class _RemoteGenerator(_RemoteFunction[_P, ObjectRefGenerator[_R]], Generic[_P, _R]): ...

def make(function: Callable[_P, _R], options: dict[str, Any]) -> RemoteFunction[_P, _R]: ...
