"""`ray.init(local_mode=True)`: everything in this process and in order, for a debugger.

A task runs where `.remote()` is called, before that returns; an actor lives in this process. There
is no daemon, no worker and no other thread, so that pdb, breakpoints and profilers see one program.

Values are copied all the same: arguments and results are pickled and loaded again, each `ray.get`
gives a new copy, and large arrays are read-only. A program that counts on sharing a list with its
task, or that passes on what can't be pickled, fails here as it does with workers. (Ray's local mode
does not copy, and hides such bugs.)

The seam: the core asks `core.local` where there is no session (src/python/local.c). What else there
is to be asked of a session stands in `_STAND_INS`, and takes the place of the core's functions
while local mode is on.
"""

import itertools
import os
import time
import weakref

from ray import _core
from ray._private import errors, local_kv, serialization, session

_numbers = itertools.count(1)
_cells = weakref.WeakValueDictionary()  # by number: what a pickled reference leads to
_met = []  # the cells that each value under way names, the innermost last
_kept = []  # cells whose references the program has pickled by itself
_stack = []  # the runs under way, the innermost last
_named = {}  # (namespace, name): the actor's reference, what its maker left for those who find it
_replaced = {}  # the core's own functions
_config = {}
_loop = None


class Cell:
    """What a reference leads to: a pickled value, an error, or an actor."""

    __slots__ = (
        "__weakref__",
        "_buffers",
        "_data",
        "_holds",
        "actor",
        "error",
        "number",
        "plain",
        "task_id",
    )

    def __init__(self):
        self.number = next(_numbers)
        self.task_id = _stack[-1].task_id if _stack else None
        self.error = self.actor = self.plain = self._data = None
        self._buffers = self._holds = ()
        _cells[self.number] = self

    def store(self, value, what):
        """Keeps a copy of the value."""
        from ray._private.definition import Definition, Grouped, Retried

        if isinstance(value, (Definition, Grouped, Retried)):
            self.plain = value  # a function does not change on its way
            return
        _met.append([])
        try:
            self._data, buffers = serialization.dumps(value, what=what)
        finally:
            self._holds = _met.pop()  # what the references in the bytes lead to
        self._buffers = [_bytes_of(buffer) for buffer in buffers]

    def load(self):
        """The value, a new one each time; raises what it is, if it is an error."""
        if self.error is not None:
            raise errors.load_error(*self.error)
        if self._data is None:
            return self.plain
        return serialization.loads(self._data, self._buffers)

    def ref(self):
        return _core.local_ref(self, self.number)

    def met(self):
        """A reference to this is pickled: into a value here; or by the program itself, and then
        nobody knows where the bytes go.
        """
        (_met[-1] if _met else _kept).append(self)

    def future(self):
        from concurrent.futures import Future

        made = Future()
        try:
            made.set_result(self.load())
        except BaseException as error:
            made.set_exception(error)
        return made

    def awaited(self):
        """The iterator behind `await ref`."""
        value = self.load()
        return _nothing_to_await(value)


def _nothing_to_await(value):
    return value
    yield


def _bytes_of(buffer):
    if isinstance(buffer, serialization.Writer):
        data = bytearray(buffer.nbytes)
        buffer.write(memoryview(data))
        return bytes(data)
    return buffer.raw().tobytes()


class _Run:
    """A task or call under way."""

    def __init__(self, kind, name, function, actor):
        self.kind = kind
        self.name = name
        self.function = function
        self.actor = actor  # the Cell of the actor that runs it, or is being made
        self.task_id = f"{next(_numbers):040x}"


class _Actor:
    """An actor: the instance, until it is dead."""

    def __init__(self, definition, groups):
        self.definition = definition
        self.groups = groups
        self.instance = None
        self.why_dead = None

    def die(self, cell, why, init_failed=False):
        text = (
            f"The actor died unexpectedly before finishing this task.\n\tclass_name: "
            f"{self.definition.name}\n\tactor_id: {cell.ref().hex()}\nThe actor "
            f"{self.definition.name} is dead: {why}"
        )
        self.why_dead = (text, cell.ref().hex(), init_failed)
        self.instance = None
        for key in [key for key, (ref, _) in _named.items() if _core.local_cell(ref) is cell]:
            del _named[key]


# ---- what the core asks for ----


class _Local:
    """What stands in for a session."""

    def put(self, value):
        if isinstance(value, _core.ObjectRef):
            raise TypeError(
                "ray.put of an ObjectRef: its object is in the store already. To store the "
                "reference itself, wrap it in a list"
            )
        cell = Cell()
        cell.store(value, "the value given to ray.put")
        return cell.ref()

    def get(self, object_refs, timeout=None):
        if isinstance(object_refs, _core.ObjectRef):
            return _cell(object_refs).load()
        if not isinstance(object_refs, (list, tuple)):
            raise ValueError(
                f"ray.get takes an ObjectRef or a list of them, not {type(object_refs).__name__}"
            )
        return [_cell(ref).load() for ref in object_refs]

    def wait(self, ray_waitables, num_returns=1, timeout=None, fetch_local=True):
        if isinstance(ray_waitables, _core.ObjectRef) or not isinstance(
            ray_waitables, (list, tuple)
        ):
            raise TypeError(
                f"ray.wait takes a list of ObjectRefs, and got {type(ray_waitables).__name__}"
            )
        refs = list(ray_waitables)
        for ref in refs:
            _cell(ref)
        if len(set(refs)) < len(refs):
            raise ValueError("ray.wait takes each ObjectRef once")
        if not 0 < num_returns <= len(refs) and refs:
            raise ValueError(f"num_returns must be 1 to {len(refs)}, not {num_returns}")
        return refs[:num_returns], refs[num_returns:]

    def restore(self, id):
        """The reference of this id."""
        cell = _cells.get(int.from_bytes(id[12:], "big"))
        if cell is None:
            from ray.exceptions import OwnerDiedError

            raise OwnerDiedError("the object of this reference is gone: nobody holds it")
        return cell.ref()

    def submit(self, prepare, actor, args, kwargs):
        """A task, a creation or a call: runs it, and returns what `.remote()` does."""
        spec = prepare()
        if spec["kind"] == _core.ACTOR_CREATE:
            return _create(spec, args, kwargs)
        if spec["kind"] == _core.ACTOR_CALL:
            return _call(spec, _cell(actor), args, kwargs)
        function = _core.local_cell(spec["function"]).load()
        run = _Run(spec["kind"], spec["name"], function.target, None)
        called = function.loaded()
        return _run(spec, run, called, called, args, kwargs)


def _cell(ref):
    if not isinstance(ref, _core.ObjectRef):
        raise TypeError(f"an ObjectRef is wanted, not {type(ref).__name__}")
    cell = _core.local_cell(ref)
    if cell is None or not _core_is_local():
        from ray.exceptions import OwnerDiedError

        raise OwnerDiedError("this reference is not of this session, which is in local mode")
    return cell


def _core_is_local():
    return session.mode == session.LOCAL_MODE


# ---- running ----


def _create(spec, args, kwargs):
    made = _core.local_cell(spec["function"]).load()
    definition = getattr(made, "definition", made)
    naming = spec.get("naming")
    if naming:
        _claim_name(naming)
    cell = Cell()
    cell.actor = actor = _Actor(definition, tuple(getattr(made, "groups", ())))
    ref = cell.ref()
    if naming and naming[1]:
        _named[naming[0], naming[1]] = (ref, naming[3])
    run = _Run(spec["kind"], f"{definition.name}.__init__", definition.target, cell)
    value, error = _attempt(spec, run, definition.loaded(), args, kwargs)
    if error is not None:
        text = errors.load_error(*error)
        actor.die(cell, f"its constructor failed: {text}", True)
    else:
        actor.instance = value
    return ref


def _claim_name(naming):
    space, name, *_ = naming
    if name and (space, name) in _named:
        from ray.exceptions import ActorAlreadyExistsError

        raise ActorAlreadyExistsError(
            f"there is an actor named {name!r} already in the namespace {space!r}"
        )


def _call(spec, cell, args, kwargs):
    actor = cell.actor
    method = spec["name"]
    run = _Run(spec["kind"], f"{actor.definition.name}.{method}", None, cell)
    if actor.why_dead is not None:
        return _results(spec, None, ("actor_died", actor.why_dead), run)
    classes = spec["function"] and _core.local_cell(spec["function"]).load()
    return _run(spec, run, classes, getattr(actor.instance, method), args, kwargs)


def _run(spec, run, classes, function, args, kwargs):
    if spec.get("dynamic"):
        function = _collecting(function)
    if spec.get("flows"):
        return LocalGenerator(spec, run, function, args, kwargs)
    value, error = _attempt(spec, run, function, args, kwargs, classes)
    return _results(spec, value, error, run)


def _collecting(function):
    """The same for num_returns="dynamic"."""
    from ray._private.generators import collect

    return lambda *args, **kwargs: collect(function(*args, **kwargs))


def _put_error(error):
    cell = Cell()
    cell.error = ("task", errors.make_error(error, _stack[-1].name, os.getpid(), None))
    return cell.ref()


def _attempt(spec, run, function, args, kwargs, classes=None):
    """(value, None), or (None, what `errors.load_error` takes)."""
    from ray._private.definition import should_retry

    left = spec["max_retries"] if spec["kind"] != _core.ACTOR_CREATE else 0
    while True:
        try:
            positional, named = _arguments(spec, args, kwargs)
        except _Failed as failed:
            return None, failed.error
        _stack.append(run)
        try:
            return _finished(function(*positional, **named)), None
        except SystemExit:
            if run.actor is None or spec["kind"] == _core.ACTOR_CREATE:
                raise
            run.actor.actor.die(run.actor, "it ended itself by exit_actor()")
            return None, ("actor_died", run.actor.actor.why_dead)
        except Exception as error:
            if isinstance(error, _quit()):
                raise
            if spec["retry_exceptions"] and left != 0 and should_retry(error, classes):
                left -= 1
                continue
            return None, ("task", errors.make_error(error, run.name, os.getpid(), None))
        finally:
            _stack.pop()


def _quit():
    from bdb import BdbQuit

    return BdbQuit


class _Failed(Exception):
    """An argument is an error."""

    def __init__(self, error):
        super().__init__()
        self.error = error


def _arguments(spec, args, kwargs):
    """Copies, with the values of references."""

    def copy(value, what):
        if isinstance(value, _core.ObjectRef):
            cell = _cell(value)
            if cell.error is not None:
                raise _Failed(cell.error)
            return cell.load()
        cell = Cell()
        cell.store(value, f"{what} of {spec['name']}")
        return cell.load()

    return (
        [copy(value, f"argument {i}") for i, value in enumerate(args)],
        {name: copy(value, f"argument {name}") for name, value in kwargs.items()},
    )


def _finished(value):
    """What a coroutine comes to; anything else as it is."""
    import types

    if not isinstance(value, types.CoroutineType):
        return value
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _own_loop().run_until_complete(value)
    # This thread's loop is busy with whoever called: the method has a loop in a thread of its own.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, value).result()


def _own_loop():
    global _loop
    if _loop is None or _loop.is_closed():
        import asyncio

        _loop = asyncio.new_event_loop()
    return _loop


def _results(spec, value, error, run):
    count = spec["num_returns"]
    values = [value]
    if error is None and count != 1:
        values, error = _split(value, count, run)
    made = []
    for index in range(count):
        cell = Cell()
        cell.task_id = run.task_id
        cell.error = error
        if error is None:
            try:
                cell.store(values[index], f"what {run.name} returned")
            except Exception as why:
                cell.error = ("task", errors.make_error(why, run.name, os.getpid(), None))
        made.append(cell.ref())
    return made[0] if count == 1 else made if count else None


def _split(value, count, run):
    try:
        values = list(value) if count else []
        if len(values) == count:
            return values, None
        raise ValueError(
            f"{run.name} is to return {count} values (num_returns), and has {len(values)}"
        )
    except Exception as error:
        return None, ("task", errors.make_error(error, run.name, os.getpid(), None))


class LocalGenerator:
    """What a task that yields gives in local mode: each `next` runs it up to its next `yield`.

    One that is pickled is passed on, as with workers: another has its items from then on, which is
    what comes out of the pickle, however often.
    """

    _passed = None  # the Cell of the one that it was passed on as, or that this one is in
    _readable = True

    def __init__(self, spec, run, function, args, kwargs):
        self._run = run
        self._done = Cell()
        self._items = None
        value, error = _attempt(spec, run, function, args, kwargs)
        self._done.error = error
        if error is None:
            self._done.store(None, "the end")
            self._items = iter(value) if hasattr(value, "__iter__") else _async_items(value)
        self._failed = error

    def __reduce__(self):
        if self._passed is None:
            self._pass_on()
        self._passed.met()
        return _passed_on, (self._passed.number,)

    def _pass_on(self):
        other = LocalGenerator.__new__(LocalGenerator)
        self._passed = Cell()
        other.__dict__.update(self.__dict__)
        self._passed.plain = other
        self._readable = False

    def __iter__(self):
        return self

    def __next__(self):
        if not self._readable:
            raise RuntimeError("this generator was passed on: others read its items now")
        if self._failed is not None:
            failed, self._failed = self._failed, None
            self._items = iter(())
            return self._made(failed)
        _stack.append(self._run)
        try:
            value = next(self._items)
        except StopIteration:
            raise
        except Exception as error:
            self._items = iter(())
            self._done.error = (
                "task",
                errors.make_error(error, self._run.name, os.getpid(), None),
            )
            return self._made(self._done.error)
        finally:
            _stack.pop()
        return self._made(None, value)

    def _made(self, error, value=None):
        cell = Cell()
        cell.task_id = self._run.task_id
        cell.error = error
        if error is None:
            cell.store(value, f"what {self._run.name} yielded")
        return cell.ref()

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def completed(self):
        """The reference that is there when the task is over."""
        return self._done.ref()


def _passed_on(number):
    return _cells[number].plain


def _async_items(generator):
    while True:
        try:
            yield _finished(_step(generator))
        except StopAsyncIteration:
            return


async def _step(generator):
    return await generator.__anext__()


# ---- what the rest of the package asks the core for ----


def _find_actor(space, name):
    found = _named.get((space, name))
    if found is None:
        raise errors.NoSuchName(f"there is no actor named {name!r}")
    return found


def _actor_names(all_namespaces):
    return [
        (space, name, 1, _core.local_cell(ref).number, ref.hex()[:16])
        for (space, name), (ref, _) in _named.items()
        if all_namespaces or space == session.namespace
    ]


def _kill_actor(ref, no_restart):
    cell = _cell(ref)
    if cell.actor.why_dead is None:
        cell.actor.die(cell, "it was killed by ray.kill")


def _current():
    run = _stack[-1] if _stack else None
    actor = run.actor if run else None
    return {
        "task_id": run.task_id if run else None,
        "actor_id": actor.ref().hex() if actor else None,
        "name": run.name if run else None,
        "function": run.function if run and run.kind == _core.TASK else None,
        "gpu_ids": [],
        "node_id": f"{0:016x}",
        "job_id": "01000000",
        "worker_id": f"{0:024x}",
        "resources": {},
        "restarted": False,
    }


def current_actor():
    """The handle of the actor whose method runs."""
    from ray.actor import ActorHandle

    cell = _stack[-1].actor
    definition = cell.actor.definition
    return ActorHandle(cell.ref(), definition, definition.name, groups=cell.actor.groups)


def _query(what):
    if what == "nodes":
        import socket

        amounts = tuple((name, total, total) for name, total in _config["resources"].items())
        about = ("127.0.0.1", 0, "", socket.gethostname(), os.getpid(), True, "")
        labels = _config.get("labels") or ""
        return [(f"{0:016x}", True, *about, labels, int(time.time() * 1000), 0, "", amounts)]
    if what == "resources":
        return {"total": dict(_config["resources"]), "available": dict(_config["resources"])}
    if what == "events":
        return []
    raise RuntimeError(f"there is nothing to ask about {what} in local mode")


_STAND_INS = {
    "actor_names": _actor_names,
    "cancel": lambda ref, force, recursive: _cell(ref) and None,  # it is over already
    "current": _current,
    "current_name": lambda: _stack[-1].name if _stack else None,
    "find_actor": _find_actor,
    "is_cancelled": lambda: False,
    "is_connected": lambda: True,
    "is_pending": lambda key: False,
    "is_there": lambda ref: True,
    "kill_actor": _kill_actor,
    "kv": local_kv.kv,
    "labels": lambda: _config.get("labels") or "",
    "names_dropped": lambda: None,
    "put_error": _put_error,
    "query": _query,
    "session": lambda: {
        "node_id": f"{0:016x}",
        "session_dir": "",
        "socket": "",
        "joined": False,
    },
}


def enter(config: dict):
    """Local mode begins. `config`: as for a session of one's own."""
    _config.update(config, resources=config.get("resources") or {})
    for name, stand_in in _STAND_INS.items():
        _replaced[name] = getattr(_core, name)
        setattr(_core, name, stand_in)
    _core.set_local(_Local())


def leave():
    """Local mode ends."""
    global _loop
    _core.set_local(None)
    for name, own in _replaced.items():
        setattr(_core, name, own)
    _replaced.clear()
    _named.clear()
    _kept.clear()
    local_kv.forget()
    _config.clear()
    if _loop is not None:
        _loop.close()
        _loop = None
