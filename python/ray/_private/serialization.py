"""Values to bytes and back, for what the core does not encode by itself.

Plain data goes through the C pickler. Everything else goes through cloudpickle, which carries
functions and classes of the main script by value; it is slow to import, so that waits until
something needs it. Buffers of a few kilobytes and more, and the memory of a value that is an array
itself, stay outside of the pickle: the core copies them once, straight into shared memory, and a
reader gets views of them.
"""

import _thread
from _pickle import PickleError
from _pickle import dumps as _plain_dumps
from _pickle import loads as _loads
from io import BytesIO

_LARGE = 4096  # below this, a buffer of its own costs more than its copy


class _State(_thread._local):
    depth = 0


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
    buffers = []
    least = 1 if apart else _LARGE

    def keep_inside(buffer):
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
    try:
        return _by_value(value, keep_inside), buffers
    except Exception as error:
        from ray._private.explain import unpicklable
        from ray.exceptions import RayError

        if isinstance(error, RayError):  # a reference of an earlier session, say
            raise
        raise TypeError(unpicklable(value, what, error)) from error


def loads(data, buffers=()):
    """The value of what `dumps` gave."""
    return _loads(data, buffers=buffers)


def inband(value) -> bytes:
    """A value as bytes alone, or whatever exception its pickling raises."""
    return _by_value(value, None)


def _by_value(value, callback):
    from cloudpickle import CloudPickler

    file = BytesIO()
    kind = _registering() if _registered else CloudPickler
    _state.depth += 1
    try:
        kind(file, protocol=5, buffer_callback=callback).dump(value)
    finally:
        _state.depth -= 1
    return file.getvalue()


_pickler = None


def _registering():
    """cloudpickle's pickler with what users have registered; it reads its table off its class."""
    global _pickler
    if _pickler is None:
        from cloudpickle import CloudPickler

        table = CloudPickler.dispatch_table.new_child(_registered)
        _pickler = type("Pickler", (CloudPickler,), {"dispatch_table": table})
    return _pickler
