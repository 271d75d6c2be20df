"""Exceptions on their way to another process.

By itself, pickle makes an exception again by its constructor from `args`, which fails for every
class whose constructor takes something else than it hands on, and it does nothing at all with one
that has a lock, a file or a socket in a field. Here an exception is made again without its
constructor where need be, without the fields that can't be pickled, or as the nearest of its bases
that can.
"""

_MEMBER = type(ImportError.__dict__["name"])  # a slot, or a field of a class written in C


class Carried:
    """An exception that is to be pickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        error = self.error
        # whose name Python 3.11 and before leave behind
        named = isinstance(error, (AttributeError, NameError))
        if _has_own_way(error) or not (named or _has_constructor(error)):
            return _same, (error,)
        return _rebuild, (type(error), *_parts(error))


class _Rebuilt:
    """One that is to be made again as an instance of `kind` from these parts."""

    def __init__(self, kind, parts):
        self.kind = kind
        self.parts = parts

    def __reduce__(self):
        return _rebuild, (self.kind, *self.parts)


def carry(error: BaseException) -> tuple:
    """(its pickle, what its text is to say of that); the pickle is None if there can be none."""
    try:
        carried = _bytes(Carried(error))
        # Only these may fail to come back from what they were pickled to.
        if not (_has_own_way(error) and _has_constructor(error)) or _comes_back(
            carried, type(error)
        ):
            return carried, ""
        failure = None
    except Exception as why:
        failure = why
    parts, left_out = _without_the_unpicklable(error)
    for kind in type(error).__mro__:
        if kind in (Exception, BaseException):
            break
        try:
            carried = _bytes(_Rebuilt(kind, parts))
            if _comes_back(carried, kind):
                return carried, _remark(error, kind, left_out, failure)
        except Exception as why:
            failure = failure or why
    return None, _remark(error, None, left_out, failure)


def _bytes(value):
    from ray._private import serialization

    return serialization.inband(value)


def _comes_back(carried, kind):
    from _pickle import loads

    try:
        return isinstance(loads(carried), kind)
    except Exception:
        return False


def _has_own_way(error):
    kind = type(error)
    return (
        kind.__reduce__ is not BaseException.__reduce__
        or kind.__reduce_ex__ is not object.__reduce_ex__
    )


def _has_constructor(error):
    return hasattr(type(error).__init__, "__code__")


def _parts(error):
    return BaseException.args.__get__(error), _members(error), error.__dict__


def _members(error):
    """What the classes of an exception keep outside of its __dict__."""
    found = {}
    for base in type(error).__mro__:
        for name, field in base.__dict__.items():
            # the object that has no such attribute stays behind: it may be anything
            if isinstance(field, _MEMBER) and not name.startswith("__") and name != "obj":
                try:
                    found[name] = field.__get__(error)
                except AttributeError:  # it was never set
                    pass
    return found


def _without_the_unpicklable(error):
    """(parts, what is left out of them): a field becomes None, an argument its repr."""
    from ray._private.explain import unpicklable

    args, members, fields = _parts(error)
    left_out = []

    def kept(value, what, instead):
        try:
            _bytes(value)
            return value
        except Exception as why:
            left_out.append(unpicklable(value, what, why).removeprefix("can't pickle "))
            return instead(value)

    parts = (
        tuple(kept(value, f"argument {index}", _repr) for index, value in enumerate(args)),
        {name: kept(value, f".{name}", _nothing) for name, value in members.items()},
        {name: kept(value, f".{name}", _nothing) for name, value in fields.items()},
    )
    return parts, left_out


def _nothing(value):
    return None


def _repr(value):
    try:
        return repr(value)[:200]
    except Exception:
        return f"<{type(value).__qualname__}>"


def _remark(error, kind, left_out, failure):
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    said = []
    if kind is not type(error):
        why = f"{type(failure).__name__}: {failure}" if failure else "it does not come back"
        said.append(f"the exception of class {name} could not be pickled: {why}")
        if kind is not None:
            said.append(f"it arrives as its base class {kind.__qualname__}")
    if left_out and kind is not None:
        said.append(f"left out of {name}, for it can't be pickled: {', '.join(left_out)}")
    return f"\n({'; '.join(said)})" if said else ""


def _same(error):
    return error


def _rebuild(kind, args, members, fields):
    error = kind.__new__(kind, *args)
    # Past what the class may do when it is asked to set something.
    BaseException.args.__set__(error, args)
    for name, value in members.items():
        try:
            object.__setattr__(error, name, value)
        except (AttributeError, TypeError):  # one that can't be set
            pass
    error.__dict__.update(fields)
    return error
