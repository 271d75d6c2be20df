"""The words of ray.util.collective: ReduceOp and Backend."""

from enum import Enum

__all__ = ["Backend", "ReduceOp", "cupy_available", "torch_available"]


class ReduceOp(Enum):
    """How arrays of several ranks become one, element by element.

    collective.allreduce(array, op=ReduceOp.MAX)
    """

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


class Backend:
    """The names of backends: `Backend("gloo")` is `Backend.GLOO`.

    GLOO, TORCH_GLOO and AUTO mean arrays in this machine's memory, carried by the object store.
    The others need GPUs or another library, and are refused.
    """

    AUTO = "auto"
    GLOO = "gloo"
    TORCH_GLOO = "torch_gloo"
    NCCL = "nccl"
    HCCL = "hccl"
    NIXL = "nixl"
    MPI = "mpi"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: "str | None") -> str:
        if name is None:
            return cls.AUTO
        if not isinstance(name, str):
            raise TypeError(f"a backend is a string, not {type(name).__name__}")
        backend = getattr(cls, name.upper(), cls.UNRECOGNIZED)
        if backend == cls.UNRECOGNIZED:
            raise ValueError(f"Unrecognized backend: {name!r}. Use 'gloo'")
        return backend


OURS = frozenset((Backend.AUTO, Backend.GLOO, Backend.TORCH_GLOO))


def torch_available() -> bool:
    """Whether torch can be imported here."""
    from importlib.util import find_spec

    return find_spec("torch") is not None


def cupy_available() -> bool:
    """Whether arrays on GPUs can take part: they can't."""
    return False
