"""The errors of the system. Every one is a `RayError`; where Python has a fitting class, it is one
of those too.
"""


class RayError(Exception):
    """The base of every error of this module.

    try:
        ray.get(ref)
    except ray.exceptions.RayError as error:
        print(error)
    """


class RayTaskError(RayError):
    """A task raised an exception.

    `ray.get` raises an instance of this class and of the class of the exception that the task
    raised, so that both `except RayTaskError` and `except ValueError` (say) catch it. Its text is
    the traceback in the worker.

        try:
            ray.get(fails.remote())
        except ValueError as error:         # the class that the task raised
            print(error.cause)

    Attributes:
        function_name: the remote function or method that raised.
        traceback_str: the traceback in the worker, as text.
        cause: the exception itself, or None if it could not be carried here. It is the only one
            of `args` too, where this is an instance of its class.
        pid: the process that the task ran in.
        ip: the address of the machine that it ran on.
        proctitle: how `ps` showed that process.
    """

    def __init__(self, function_name="", traceback_str="", cause=None, pid=None):
        self.args = () if cause is None else _ARGS.__get__(cause)
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.pid = pid
        self.ip = "127.0.0.1"
        self.proctitle = f"ray::{function_name}"

    def __str__(self):
        return self._ray_plain().traceback_str

    def __reduce__(self):
        from ray._private.carrying import Carried

        plain = self._ray_plain()
        cause = None if plain.cause is None else Carried(plain.cause)
        return _rebuild_task_error, (plain.function_name, plain.traceback_str, cause, plain.pid)

    def __copy__(self):
        plain = self._ray_plain()
        return _rebuild_task_error(plain.function_name, plain.traceback_str, plain.cause, plain.pid)

    def _ray_plain(self):
        """The error without its cause's class, whose fields may hide those of this one."""
        return self.__dict__.get("_ray_plain_error", self)

    def as_instanceof_cause(self):
        """This error as an instance of its cause's class as well; itself where there can be no such
        instance.
        """
        cause = self._ray_plain().cause
        # A task's SystemExit or KeyboardInterrupt must not end the one who asks for its result.
        if not isinstance(cause, Exception) or isinstance(self, type(cause)):
            return self
        try:
            return _as_cause(self, cause)
        # the class can't be inherited from, or does something of its own when one is made
        except Exception:
            return self


# An exception's own, whatever its class makes of the name.
_ARGS = BaseException.args


def _as_cause(plain, cause):
    error = _make(_dual_class(type(cause)), plain.args)
    _ARGS.__set__(error, (cause,))  # as with Ray, whose users may look there for it
    # Straight into the fields: its class may have properties of these names, or a say in what is
    # set. What the cause itself has under a name is what its users look for.
    own = {name: value for name, value in plain.__dict__.items() if not hasattr(cause, name)}
    error.__dict__.update(own, **cause.__dict__, _ray_plain_error=plain)
    _copy_fields(cause, error)
    return error


def _make(kind, args):
    try:
        return kind.__new__(kind, *args)
    except TypeError:
        # MemoryError's own __new__ refuses to make a subclass; the one of its base does the same.
        return Exception.__new__(kind, *args)


_dual_classes: dict = {}


def _dual_class(cause_class):
    found = _dual_classes.get(cause_class)
    if found is None:
        body = {"__module__": __name__, "__doc__": cause_class.__doc__}
        found = type(f"RayTaskError({cause_class.__name__})", (RayTaskError, cause_class), body)
        _dual_classes[cause_class] = found
    return found


def _copy_fields(source, target):
    """Copies what an exception keeps outside of its __dict__: slots, and the C fields of OSError
    and its like.
    """
    kinds = (type(RayError.__dict__["__weakref__"]), type(ImportError.__dict__["name"]))
    for base in type(source).__mro__:
        if base in (Exception, BaseException, object):
            continue
        for name, field in base.__dict__.items():
            if isinstance(field, kinds) and not name.startswith("__"):
                try:
                    field.__set__(target, field.__get__(source))
                except (AttributeError, TypeError):  # a field that was never set, or can't be
                    pass


def _rebuild_task_error(function_name, traceback_str, cause, pid):
    return RayTaskError(function_name, traceback_str, cause, pid).as_instanceof_cause()


class CrossLanguageError(RayError):
    """A task of another language failed."""


class TaskCancelledError(RayError):
    """The task was cancelled.

        ray.cancel(ref)
        try:
            ray.get(ref)
        except ray.exceptions.TaskCancelledError as error:
            print(error.task_id)

    Attributes:
        task_id: the task that was, a ray.TaskID, or None if it is not known.
        error_message: what else there is to say.
    """

    def __init__(self, task_id=None, error_message=None):
        super().__init__(task_id, error_message)
        self.task_id = task_id
        self.error_message = error_message

    @classmethod
    def _told(cls, text):
        """From its words, which may have those of a task before them that needed the result."""
        from ray import TaskID

        _, found, rest = text.partition("Task: TaskID(")
        task_id, closed, message = rest.partition(") was cancelled. ")
        try:
            error = cls(TaskID.from_hex(task_id), message) if found and closed else cls(None, text)
        except ValueError:
            error = cls(None, text)
        error._text = text
        return error

    def __str__(self):
        told = getattr(self, "_text", None)
        if told is not None:
            return told
        task = f"Task: {self.task_id} was cancelled. " if self.task_id else ""
        return task + (self.error_message or "")


class LocalRayletDiedError(RayError):
    """The node's daemon is gone, and with it everything it kept.

    try:
        ray.get(ref)
    except ray.exceptions.LocalRayletDiedError:
        ray.shutdown()
        ray.init()
    """


class LocalRayletStoppedError(LocalRayletDiedError):
    """The node's daemon is stopped, or does not answer. What it kept is there again if it goes
    on.

        os.kill(daemon, signal.SIGSTOP)
        ray.get(ref)                        # raises it within 5 s
        os.kill(daemon, signal.SIGCONT)     # and all goes on
    """


class WorkerCrashedError(RayError):
    """The worker process ended in the middle of a task, more often than max_retries allows.

    crash = ray.remote(max_retries=0)(lambda: os.abort())
    ray.get(crash.remote())             # raises WorkerCrashedError
    """


class RayActorError(RayError):
    """A call to an actor could not be carried out.

        try:
            ray.get(actor.work.remote())
        except ray.exceptions.RayActorError as error:
            print(error.actor_id, error)

    Attributes:
        actor_id: the actor's id in hexadecimal digits, or None if it is not known.
        error_msg: the whole text.
        actor_init_failed: whether the actor could not be made.
        preempted: whether its node was taken away; never, on one machine.
    """

    BASE_ERROR_MSG = "The actor experienced an error before finishing this task."

    def __init__(
        self, actor_id=None, error_msg=BASE_ERROR_MSG, actor_init_failed=False, preempted=False
    ):
        super().__init__()
        self._tell(error_msg, actor_id, actor_init_failed, preempted)

    def _tell(self, error_msg, actor_id=None, actor_init_failed=False, preempted=False):
        self.actor_id = actor_id
        self.error_msg = error_msg
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted

    @classmethod
    def _told(cls, *what):
        error = cls.__new__(cls)
        error._tell(*what)
        return error

    @property
    def actor_init_failed(self) -> bool:
        return self._actor_init_failed

    @property
    def preempted(self) -> bool:
        return self._preempted

    def __str__(self):
        return self.error_msg

    def __repr__(self):
        return f"{type(self).__name__}({self.error_msg!r})"

    def __reduce__(self):
        return type(self)._told, (
            self.error_msg,
            self.actor_id,
            self._actor_init_failed,
            self._preempted,
        )


class ActorDiedError(RayActorError):
    """The actor is dead: it was killed, its process ended, or its constructor raised.

    ray.kill(actor)
    ray.get(actor.work.remote())        # raises ActorDiedError
    """

    BASE_ERROR_MSG = "The actor died unexpectedly before finishing this task."

    def __init__(self, cause=None):
        super().__init__(error_msg=self.BASE_ERROR_MSG)
        if isinstance(cause, RayTaskError):
            text = f"The actor died because of an error raised in its creation task, {cause}"
            self._tell(text, None, True)
        elif cause is not None:
            self._tell(str(cause))


class ActorUnavailableError(RayActorError):
    """The actor can't be reached now; it may come back.

    try:
        ray.get(actor.work.remote())
    except ray.exceptions.ActorUnavailableError:
        ray.get(actor.work.remote())    # it may have run in part; now the actor is back
    """

    def __init__(self, error_message=None, actor_id=None):
        hexadecimal = actor_id.hex() if isinstance(actor_id, bytes) else actor_id
        super().__init__(hexadecimal, f"The actor is temporarily unavailable: {error_message}")


class RaySystemError(RayError):
    """The system itself failed, or is not running.

    ref = ray.put(1)
    ray.shutdown()
    ray.init()
    ray.get(ref)                        # raises RaySystemError: it is of the session before
    """


class AuthenticationError(RayError):
    """The token is missing or wrong."""


class UserCodeException(RayError):
    """Code of the user that runs inside the system failed."""


class ObjectStoreFullError(RayError):
    """The object store has no room for the object.

    ray.init(object_store_memory=100 << 20)
    kept = [ray.get(ray.put(bytearray(30 << 20))) for _ in range(9)]    # raises it at last
    """


class OutOfDiskError(RayError):
    """The disk that the system writes to is full.

    ray.init(object_spilling_directory="/mnt/large")    # where there is more room
    """


class OutOfMemoryError(RayError):
    """The node ran short of memory and ended the task.

    train.options(memory=8 << 30).remote()      # then fewer of them run at once
    """


class NodeDiedError(RayError):
    """The node that ran the task is dead, or can't be reached, more often than max_retries allows.

    far = ray.remote(max_retries=0, resources={"far": 1})(lambda: time.sleep(60))
    ray.get(far.remote())               # raises NodeDiedError when that node dies
    """


class ObjectLostError(RayError):
    """The object is gone and was not made again.

        try:
            ray.get(ref)
        except ray.exceptions.ObjectLostError:
            ref = make.remote()

    Attributes:
        object_ref_hex: its id, or "" if the words do not name it.
        owner_address, call_site: not kept here, and empty.
    """

    owner_address = b""
    call_site = ""

    @property
    def object_ref_hex(self) -> str:
        _, found, rest = str(self).partition("ObjectRef(")
        return rest.partition(")")[0] if found else ""


class ObjectFetchTimedOutError(ObjectLostError):
    """The object could not be brought here in time."""


class RpcError(RayError):
    """A message to another process could not be delivered.

    Attributes:
        rpc_code: a number, or None.
    """

    def __init__(self, message="", rpc_code=None):
        super().__init__(message)
        self.rpc_code = rpc_code


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was freed although a reference to it was still in use."""


class ObjectFreedError(ObjectLostError):
    """The object was freed by hand.

    try:
        ray.get(ref)
    except ray.exceptions.ObjectFreedError:
        ref = make.remote()
    """


class OwnerDiedError(ObjectLostError):
    """The process or node that owned the object is dead.

    ref = ray.cloudpickle.loads(of_an_ended_job)
    ray.get(ref)                        # raises OwnerDiedError
    """


class ObjectReconstructionFailedError(ObjectLostError):
    """The object is gone, and running its task again did not bring it back."""


class GetTimeoutError(RayError, TimeoutError):
    """`ray.get` waited as long as its timeout; the task goes on.

    try:
        ray.get(ref, timeout=1)
    except ray.exceptions.GetTimeoutError:
        ray.cancel(ref)
    """


class DeadlockError(RayError):
    """`ray.get` would wait for ever: what it waits for waits for it. Raised with
    RAY_deadlock_raise=1; else a deadlock is told on the driver.

        os.environ["RAY_deadlock_raise"] = "1"
        ray.init()
    """


class PlasmaObjectNotAvailable(RayError):
    """The object is not in the store of this node."""


class AsyncioActorExit(RayError):
    """Ends an async actor from inside."""


class RuntimeEnvSetupError(RayError):
    """The runtime environment could not be set up.

    ref = f.options(runtime_env={"pip": ["no-such-package"]}).remote()
    ray.get(ref)                        # raises RuntimeEnvSetupError, with pip's words
    """


class TaskPlacementGroupRemoved(RayError):
    """The placement group of the task was removed.

    ref = f.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
    ray.util.remove_placement_group(group)
    ray.get(ref)                        # raises it, if the task was not done
    """


class ActorPlacementGroupRemoved(RayError):
    """The placement group of the actor was removed.

    actor = A.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
    ray.util.remove_placement_group(group)
    ray.get(actor.work.remote())        # raises it
    """


class PendingCallsLimitExceeded(RayError):
    """The actor has as many calls waiting as max_pending_calls allows.

    actor = A.options(max_pending_calls=1).remote()
    refs = [actor.work.remote() for _ in range(2)]      # the second call raises it
    """


class TaskUnschedulableError(RayError):
    """The task can never be placed.

    gone = NodeAffinitySchedulingStrategy(node_id="00" * 8, soft=False)
    ray.get(f.options(scheduling_strategy=gone).remote())       # raises it
    """


class ActorUnschedulableError(RayError):
    """The actor can never be placed.

    gone = NodeAffinitySchedulingStrategy(node_id="00" * 8, soft=False)
    actor = A.options(scheduling_strategy=gone).remote()
    ray.get(actor.work.remote())        # raises it
    """


class ObjectRefStreamEndOfStreamError(RayError):
    """The stream of a generator has ended."""


class UnserializableException(RayError):
    """The exception could not be carried to this process."""


class ActorAlreadyExistsError(ValueError, RayError):
    """An actor of that name is there already.

    A.options(name="a", lifetime="detached").remote()
    A.options(name="a").remote()        # raises it; get_if_exists=True gives the first one
    """


class ActorHandleNotFoundError(ValueError, RayError):
    """There is no actor of that name, or the handle belongs to another session.

    actor = A.remote()
    ray.shutdown()
    actor.work.remote()                 # raises it, in the next session
    """


__all__ = [
    name
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, RayError)
]
