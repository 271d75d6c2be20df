"""Values to bytes and back, for what the core does not encode by itself.

Plain data goes through the C pickler. Everything else goes through cloudpickle, which carries
functions and classes of the main script by value; it is slow to import, so that waits until
something needs it. Buffers of a few kilobytes and more, and the memory of a value that is an array
itself, stay outside of the pickle: the core copies them once, straight into shared memory, and a
reader gets views of them. Values of libraries that do not pickle their memory as buffers have
reducers of ours (ray._private.reducers).
"""

import _thread
from _pickle import PickleBuffer, PickleError
from _pickle import dumps as _plain_dumps
from _pickle import loads as _loads
from io import BytesIO

_LARGE = 4096  # below this, a buffer of its own costs more than its copy


class _State(_thread._local):
    depth = 0
    writers = None  # of the pickle under way: by id of what stands for it, (that, Writer)


_state = _State()


# What users have registered (ray.util.register_serializer): a class to its __reduce__.
_registered = {}


def register(cls: type, reduce):
    """Instances of this class are pickled as `reduce` says, in this process."""
    _registered[cls] = reduce


def deregister(cls: type):
    """Takes that back."""
    _registered.pop(cls, None)


def active() -> bool:
    """Whether this thread is pickling for the core, which takes note of the references that go into
    the bytes.
    """
    return _state.depth > 0


def dumps(value, plain: bool = False, what: str = "the value", apart: bool = False):
    """(bytes, buffers) of a value; TypeError, naming the part that is to blame, if it can't be
    pickled. With `apart`, small buffers stay outside too.
    """
    buffers, writers = [], {}
    least = 1 if apart else _LARGE

    def keep_inside(buffer):
        if id(buffer) in writers:
            buffers.append(writers[id(buffer)][1])
            return False
        try:
            large = buffer.raw().nbytes >= least
        except BufferError:  # not contiguous
            return True
        if large:
            buffers.append(buffer)
        return not large

    if plain and not _registered:
        try:
            return _plain_dumps(value, 5, buffer_callback=keep_inside), buffers
        except (PickleError, TypeError, AttributeError):
            buffers.clear()
    check_size = getattr(value, "check_size", None) if _is_definition(value) else None
    try:
        data = _by_value(value, keep_inside, writers)
        if check_size is None:
            return data, buffers
    except Exception as error:
        from ray._private.explain import unpicklable
        from ray.exceptions import RayError

        if isinstance(error, RayError):  # a reference of an earlier session, say
            raise
        raise TypeError(unpicklable(value, what, error)) from error
    sizes = (b.nbytes if isinstance(b, Writer) else b.raw().nbytes for b in buffers)
    check_size(len(data) + sum(sizes))
    return data, buffers


def _is_definition(value):
    kind = type(value)
    return kind.__name__ == "Definition" and kind.__module__ == "ray._private.definition"


def loads(data, buffers=()):
    """The value of what `dumps` gave."""
    return _loads(data, buffers=buffers)


def inband(value) -> bytes:
    """A value as bytes alone, or whatever exception its pickling raises."""
    return _by_value(value, None, None)


class Writer:
    """A buffer that is made in its place: `write` gets a memoryview of `nbytes` bytes of the new
    object, fills it, and keeps nothing of it.
    """

    __slots__ = ("nbytes", "write")

    def __init__(self, nbytes, write):
        self.nbytes = nbytes
        self.write = write


def written(nbytes: int, write):
    """For a reducer: what it puts in the place of a buffer that `write` fills (see Writer). A
    reader finds a buffer there.
    """
    writers = _state.writers
    if writers is None or nbytes < _LARGE:
        data = bytearray(nbytes)
        write(memoryview(data))
        return data
    stand_in = PickleBuffer(b"")
    writers[id(stand_in)] = stand_in, Writer(nbytes, write)
    return stand_in


def _by_value(value, callback, writers):
    file = BytesIO()
    outer = _state.writers
    _state.depth += 1
    _state.writers = writers
    try:
        _pickler()(file, protocol=5, buffer_callback=callback).dump(value)
    finally:
        _state.depth -= 1
        _state.writers = outer
    return file.getvalue()


_Pickler = None


def _pickler():
    """cloudpickle's pickler with what users have registered and reducers of ours; it reads its table
    off its class.
    """
    global _Pickler
    if _Pickler is None:
        from cloudpickle import CloudPickler

        from ray._private.reducers import Table

        class Pickler(CloudPickler):
            dispatch_table = Table([_registered, *CloudPickler.dispatch_table.maps])

        _Pickler = Pickler
    return _Pickler
