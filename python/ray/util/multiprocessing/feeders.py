"""Those who hand out a pool's work.

Each process of a pool has a thread here, its feeder. A feeder takes the next piece of work from
the pool's queue, calls its actor with it, waits, and hands over what came. So work goes to whoever
is free, and nothing is assigned ahead. A feeder whose actor has died, or has done as much as
maxtasksperchild says, makes another one.
"""

import contextlib
import os
import threading
import weakref
from _queue import Empty, SimpleQueue

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

KNOWN_MOST = 100  # functions that an actor keeps


class PoolTaskError(Exception):
    """A piece of work could not be done because the pool was terminated."""


class Work:
    """A piece of work: `take(index, value, error)` gets what comes of it."""

    __slots__ = ("function", "how", "index", "payload", "take")

    def __init__(self, take, index, how, function, payload):
        self.take = take
        self.index = index
        self.how = how
        self.function = function
        self.payload = payload


class Crew:
    """What a pool and its feeders share; it does not hold the pool, so that one that nobody uses
    any more ends.
    """

    def __init__(self, make_actor, processes, limit):
        self.make_actor = make_actor
        self.limit = limit
        self.work = SimpleQueue()  # of Work; None: one feeder is to end
        self.running = True  # more work is taken
        self.killed = False
        self.lock = threading.Lock()
        self.unread = weakref.WeakSet()  # imaps whose iterables have more
        self.feeders = [Feeder(self) for _ in range(processes)]
        self.fed = False

    def submit(self, work):
        if not self.fed:
            with self.lock:
                if not self.fed:
                    for feeder in self.feeders:
                        feeder.start()
                    self.fed = True
        self.work.put(work)
        if self.killed:
            self._fail_all()

    def close(self):
        with self.lock:
            if self.running:
                self.running = False
                self._end_if_read()

    def read_out(self, iterator):
        """The iterable of an imap has no more, or nobody wants the rest."""
        with self.lock:
            self.unread.discard(iterator)
            if not self.running and not self.killed:
                self._end_if_read()

    def _end_if_read(self):
        if not self.unread:
            for _ in self.feeders:
                self.work.put(None)

    def terminate(self):
        with self.lock:
            self.running = False
            self.killed = True
        self._fail_all()
        for feeder in self.feeders:
            self.work.put(None)
            feeder.kill()

    def _fail_all(self):
        while True:
            try:
                work = self.work.get_nowait()
            except Empty:
                return
            if work is not None:
                work.take(work.index, None, PoolTaskError("the pool was terminated"))

    def join(self):
        for iterator in list(self.unread):
            iterator._read_all()
        for feeder in self.feeders:
            if feeder.is_alive():
                feeder.join()
            elif not self.fed:
                feeder.kill()


class Feeder(threading.Thread):
    """Feeds one process of a pool."""

    def __init__(self, crew):
        super().__init__(name="ray pool", daemon=True)
        self._crew = crew
        self.actor = crew.make_actor()
        self._known = set()  # functions that the actor has
        self._done = 0  # pieces of work of this actor

    def run(self):
        take = self._crew.work.get
        while (work := take()) is not None:
            value = error = None
            try:
                value = self._do(work)
            except BaseException as caught:
                error = caught
            work.take(work.index, value, plain(error))
            del work, value, error
        self._end_actor()

    def _do(self, work):
        if self._crew.killed:
            raise PoolTaskError("the pool was terminated")
        actor = self.actor
        if actor is None:
            actor = self.actor = self._crew.make_actor()
        number, function = work.function.number, work.function.ref
        method = getattr(actor, work.how)
        known = number in self._known
        try:
            answer = ray.get(method.remote(number, None if known else function, work.payload))
            if answer is None:  # it has forgotten it
                answer = ray.get(method.remote(number, function, work.payload))
        except RayActorError:
            self._forget_actor()
            if self._crew.killed:
                raise PoolTaskError("the pool was terminated") from None
            raise
        if not known:
            self._known.add(number)
        self._done += 1
        if self._done == self._crew.limit:
            self._end_actor()
        return answer[0]

    def _forget_actor(self):
        self.actor = None
        self._known.clear()
        self._done = 0

    def _end_actor(self):
        """Lets it end as a program does; the next piece of work makes another one."""
        if self.actor is not None and not self._crew.killed:
            with contextlib.suppress(RayError):  # it is dead, or its session has ended
                self.actor.__ray_terminate__.remote()
        self._forget_actor()

    def kill(self):
        actor = self.actor
        if actor is not None and ray.is_initialized():
            with contextlib.suppress(RayError):
                ray.kill(actor)


class _RemoteTraceback(Exception):
    """The cause that Python shows of an exception which a worker raised."""

    def __str__(self):
        return f"\n{self.args[0]}"


def plain(error):
    """What the user's function raised, with the worker's traceback as its cause."""
    if not isinstance(error, RayTaskError):
        return error
    told = error._ray_plain()
    if told.cause is None:
        return error
    told.cause.__cause__ = _RemoteTraceback(told.traceback_str)
    return told.cause


class PoolActor:
    """A process of a pool. Each method answers with a tuple of one, or None: it does not know the
    function.
    """

    def __init__(self, initializer=None, initargs=()):
        self._functions = {}
        if initializer is not None:
            initializer(*initargs)

    def ping(self):
        """Answers once the process is ready."""

    def _find(self, number, function):
        if function is None:
            return self._functions.get(number)
        if len(self._functions) >= KNOWN_MOST:
            self._functions.clear()
        self._functions[number] = function
        return function

    def apply(self, number, function, payload):
        """One call, of (args, kwargs)."""
        function = self._find(number, function)
        return None if function is None else (function(*payload[0], **payload[1]),)

    def map(self, number, function, payload):
        """A call for each item."""
        function = self._find(number, function)
        return None if function is None else ([function(item) for item in payload],)

    def star(self, number, function, payload):
        """A call for each item, which is a tuple of arguments."""
        function = self._find(number, function)
        return None if function is None else ([function(*item) for item in payload],)

    def many(self, number, function, payload):
        """A call for each item, which is (args, kwargs)."""
        function = self._find(number, function)
        return None if function is None else ([function(*args, **kw) for args, kw in payload],)

    def each(self, number, function, payload):
        """A call for each item; an exception is the result of that item alone."""
        function = self._find(number, function)
        return None if function is None else ([result_of(function, item) for item in payload],)


class Raised:
    """An exception in the place of a result."""

    def __init__(self, text, carried):
        self.told = text, carried

    def error(self):
        from ray._private.errors import load_error

        return plain(load_error("task", self.told))


def result_of(function, item):
    try:
        return function(item)
    except Exception as error:
        from ray._private.errors import make_error

        name = getattr(function, "__name__", type(function).__name__)
        return Raised(*make_error(error, name, os.getpid(), None))
