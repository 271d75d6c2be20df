"""Ids as objects: what `ray.get_runtime_context().node_id` and its like are. (The ids of objects
are the references themselves.)
"""

import os


class BaseID:
    """So many bytes as its kind has. All of them 0xff is nobody's: the nil one."""

    __slots__ = ("_bytes",)
    _size = 0

    def __init__(self, id: bytes):
        if not isinstance(id, bytes) or len(id) != self._size:
            raise ValueError(
                f"a {type(self).__name__} has {self._size} bytes, and {id!r} is not so"
            )
        self._bytes = id

    @classmethod
    def from_binary(cls, id_bytes: bytes):
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: "str | bytes"):
        """The id of the text that `hex` gives."""
        return cls(bytes.fromhex(hex_id if isinstance(hex_id, str) else hex_id.decode()))

    @classmethod
    def nil(cls):
        return cls(b"\xff" * cls._size)

    @classmethod
    def from_random(cls):
        return cls(os.urandom(cls._size))

    @classmethod
    def size(cls) -> int:
        """How many bytes ids of this kind have."""
        return cls._size

    def binary(self) -> bytes:
        return self._bytes

    def hex(self) -> str:
        return self._bytes.hex()

    def is_nil(self) -> bool:
        return self._bytes == b"\xff" * self._size

    def __bytes__(self):
        return self._bytes

    def __eq__(self, other):
        return type(self) is type(other) and self._bytes == other._bytes

    def __hash__(self):
        return hash(self._bytes)

    def __repr__(self):
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self):
        return type(self), (self._bytes,)


class JobID(BaseID):
    """One driver and everything it started.

    print(ray.get_runtime_context().job_id.hex())
    """

    __slots__ = ()
    _size = 4

    @classmethod
    def from_int(cls, value: int):
        return cls(value.to_bytes(cls._size, "big"))

    def int(self) -> "int":
        return int.from_bytes(self._bytes, "big")


class NodeID(BaseID):
    """The machine that something runs on.

    print(ray.get_runtime_context().node_id.hex())
    """

    __slots__ = ()
    _size = 8


class WorkerID(BaseID):
    """A process that runs tasks or an actor, or a driver.

    ray.WorkerID.from_hex(ray.get_runtime_context().get_worker_id())
    """

    __slots__ = ()
    _size = 12


class TaskID(BaseID):
    """One task, or one call of an actor.

    print(ref.task_id().hex())          # of the task that makes this object
    """

    __slots__ = ()
    _size = 20


class ActorID(BaseID):
    """One actor, through all its restarts.

    print(ray.get_runtime_context().actor_id.hex())     # in a method of an actor
    """

    __slots__ = ()
    _size = 20


class PlacementGroupID(BaseID):
    """One placement group.

    print(ray.util.placement_group([{"CPU": 1}]).id.hex())
    """

    __slots__ = ()
    _size = 20
