"""This process's part in the system: starting it, ending it, and the calls that belong to no
object.

The hooks are how the core, which knows nothing of Python's modules, asks for pickling, for
exceptions and for a start.
"""

import _thread
import atexit
import functools
import os
import sys

from ray import _core
from ray._private import gpus, printing, repeats, session
from ray._private.errors import load_error, make_error, tell_error
from ray._private.global_worker import global_worker
from ray._private.gpus import get_gpu_ids  # noqa: F401  (libraries look for it here)
from ray._private.later import not_yet, refused
from ray._private.session import LOCAL_MODE, SCRIPT_MODE, WORKER_MODE  # noqa: F401

_FUNCTION = type(lambda: None)
_starting = _thread.RLock()
_printer = None
_exiting = False


def init(
    address: "str | None" = None,
    *,
    num_cpus: "float | None" = None,
    num_gpus: "float | None" = None,
    resources: "dict[str, float] | None" = None,
    labels: "dict[str, str] | None" = None,
    object_store_memory: "int | None" = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: "bool | None" = None,
    dashboard_host: "str | None" = None,
    dashboard_port: "int | None" = None,
    job_config=None,
    configure_logging: bool = True,
    logging_level=None,
    logging_format: "str | None" = None,
    logging_config=None,
    log_to_driver: "bool | None" = None,
    namespace: "str | None" = None,
    runtime_env: "dict | None" = None,
    enable_resource_isolation: bool = False,
    object_spilling_directory: "str | list[str] | None" = None,
    include_webui: "bool | None" = None,
    _memory: "float | None" = None,
    _temp_dir: "str | None" = None,
    _system_config: "dict | None" = None,
    **others,
):
    """Connects this process to a running node, or starts the system on this machine for it alone.

    Calls that need a running system do this with the defaults, so it is needed only to choose.

        ray.init(num_cpus=4)
        ray.init(address="auto")            # joins the node that `ray start` began

    Args:
        address: which node of this machine to join: the address or the folder of one, or the
            address of any node of its cluster, the head's for example; "auto" for RAY_ADDRESS, or
            else the newest cluster that this user started here with `ray start`; "local" for none:
            a session of this program's own. None is as "auto", and as "local" if there is no node.
            Of several nodes here that are in the cluster it is the one that RAY_NODE_ID names, else
            the oldest. What follows about CPUs and memory describes a session of one's own; while
            joining a node it is a ValueError.
        num_cpus: how many CPUs tasks may use; by default those this process may use.
        num_gpus: how many GPUs; by default those of CUDA_VISIBLE_DEVICES.
        resources: other resources and how much there is of each.
        labels: what the node is called by, for the option label_selector of tasks and actors and
            for NodeLabelSchedulingStrategy.
        object_store_memory: bytes for objects; by default 30 % of the memory.
        local_mode: True: no workers. Tasks and actors run in this process, in order, where they are
            called, so that a debugger sees them; values are copied as between processes.
        ignore_reinit_error: a second call is fine, and changes nothing, whatever else it is given.
        include_dashboard: None or False; include_webui is its old name.
        dashboard_host, dashboard_port: there is no dashboard, so it is nowhere.
        logging_level: the level of the logger "ray"; with configure_logging=False it is left alone.
        logging_format: how the logger "ray" writes in this process, as logging.Formatter takes it.
        log_to_driver: whether the output of workers is printed here; it is by default.
        namespace: the namespace of this driver's named actors.
        runtime_env: what this program's tasks and actors find around them: see ray.runtime_env.
        job_config: a ray.job_config.JobConfig, with namespace and runtime_env in one object.
        object_spilling_directory: where objects go that memory has no room for; a folder, or
            several that are used by turns. By default the session's own folder.
        _system_config: settings of a cluster, see `ray start --system-config`: a session of one's
            own has none that could change anything.

    Returns:
        A context with what there is to know about the session; used in a `with`, it ends it.
    """
    from ray._private import init_options
    from ray._private.context import RayContext

    init_options.refuse_unknown(others)
    if job_config is not None:
        namespace, runtime_env = init_options.of_job(job_config, namespace, runtime_env)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address must be a str or None, not {type(address).__name__}")
    with _starting:
        # A client of another cluster would be one beside this session, and no second call.
        if _core.is_connected() and "://" not in (address or ""):
            _refuse_again(ignore_reinit_error)
            return RayContext(_core.session())
        init_options.check(
            {
                "dashboard_host": dashboard_host,
                "dashboard_port": dashboard_port,
                "enable_resource_isolation": enable_resource_isolation,
                "include_dashboard": include_dashboard,
                "include_webui": include_webui,
                "logging_config": logging_config,
                **others,
            }
        )
        from ray._private import logs, services, system_config
        from ray._private import runtime_env as environments

        environment = environments.check(runtime_env or {})
        system_config.environment(_system_config)  # one node alone is declared dead by nobody
        node = _local_address(address) if local_mode else _node_to_join(address)
        of_node = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "resources": resources,
            "object_store_memory": object_store_memory,
            "memory": _memory,
            "temp_dir": _temp_dir,
            "spill": object_spilling_directory,
            "labels": labels or None,
        }
        if node is None:
            config = {**services.node(**of_node), **services.job(namespace, log_to_driver)}
        else:
            of_cluster = {"_system_config": _system_config or None}
            init_options.refuse_while_joining(node, {**of_node, **of_cluster})
            config = {"join": node.socket, **services.job(namespace, log_to_driver)}
        if configure_logging:
            logs.configure(logging_level, logging_format)
        if local_mode:
            environments.refuse_in_process(environment)
            _start_locally(config)
        else:
            _start(config)
            _use_environment(environment)
        return RayContext(_core.session())


def _use_environment(environment):
    """Without it there is no session either: the folder can't be read, say."""
    from ray._private import runtime_env

    try:
        runtime_env.use(environment)
    except BaseException:
        shutdown()
        raise


def _node_to_join(address):
    """The running node that ray.init joins; None: it starts a session of its own."""
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    if address == "local":
        return None
    from ray._private import sessions

    if address is None:
        return sessions.find_node("auto") if sessions.live_nodes() else None
    if address.startswith("ray://"):
        raise refused("ray.client", f"address={address!r}")
    if "://" in address:
        raise not_yet(f"connecting to a cluster (address={address!r})")
    return sessions.find_node(address)


def _refuse_again(ignore_reinit_error):
    if session.pid != os.getpid():
        raise RuntimeError(
            "this process was forked from one that is connected to Mobula, and has no session of "
            "its own. Call ray.init() in a process that is started anew (as multiprocessing's "
            "spawn does), or ray.shutdown() before, which leaves the parent's session alone."
        )
    if ignore_reinit_error:
        return
    if session.mode == WORKER_MODE:
        raise RuntimeError(
            "ray.init() was called in a task or an actor, which takes part in its driver's "
            "session already: leave the call out, or pass ignore_reinit_error=True."
        )
    raise RuntimeError(
        "ray.init() was called already in this process. Pass ignore_reinit_error=True if that is "
        "fine, or call ray.shutdown() before."
    )


def _start(config):
    global _printer
    counted = repeats.Repeats()  # its settings may make no sense, so before anything is started
    set_hooks()
    take_part(SCRIPT_MODE, config["namespace"])
    _core.start({**config, "meanwhile": _load_cloudpickle})
    _printer = printing.Printer(counted)


def _local_address(address):
    if address not in (None, "local"):
        raise ValueError(
            f"local_mode=True runs everything in this process, and joins no node: leave "
            f"address={address!r} out"
        )


def _start_locally(config):
    from ray._private import local_mode

    set_hooks()
    take_part(LOCAL_MODE, config["namespace"])
    local_mode.enter(config)


def _load_cloudpickle():
    """The first remote function needs it, and it is slow to import."""
    try:
        import cloudpickle  # noqa: F401
    except ImportError:  # told of where it is needed
        pass


def take_part(mode: int, namespace: str):
    """Notes that this process takes part in a new session, as a driver or as a worker."""
    session.epoch += 1
    session.pid = os.getpid()
    session.mode = mode
    session.namespace = namespace


def set_hooks():
    """Tells the core what to call for values, functions and errors."""
    from ray._private import definition, futures, serialization, sites

    _core.set_hooks(
        dumps=serialization.dumps,
        loads=serialization.loads,
        make_error=make_error,
        tell_error=tell_error,
        load_function=definition.load,
        should_retry=definition.should_retry,
        set_gpus=gpus.use,
        set_shape=_set_shape,
        await_ref=futures.await_ref,
        future_of=futures.future_of,
        site=sites.hook(),
    )


def _auto_init():
    if _exiting:
        raise RuntimeError("the program is ending: the system is not started any more")
    with _starting:
        if not _core.is_connected():
            init()


def start_if_needed():
    """What any call does that needs a session."""
    if not _core.is_connected():
        _auto_init()


_core.set_hooks(auto_init=_auto_init, load_error=load_error)


def is_initialized() -> bool:
    """Whether this process is connected to a running system; the child of a fork is not.

    if not ray.is_initialized():
        ray.init(num_cpus=2)
    """
    return _core.is_connected() and session.pid == os.getpid()


def shutdown():
    """Ends this driver's job, and the system with it unless it was joined; everything that its
    workers have printed is printed before it returns.

    On a node that was joined, detached actors stay, and so does the node.

    Workers and actors end as Python programs do, with exit functions, destructors and files
    flushed. All together have a second for that; what has not ended by then is told and killed.

    Remote functions and classes work again after the next `ray.init`; references and handles do
    not.

        ray.init(num_cpus=2)
        try:
            run()
        finally:
            ray.shutdown()
    """
    global _printer
    if session.mode == WORKER_MODE:
        raise RuntimeError(
            "ray.shutdown() can't be called in a task or an actor: the driver ends the session"
        )
    with _starting:
        if session.mode == LOCAL_MODE:
            from ray._private import local_mode

            local_mode.leave()
            session.mode = None
            return
        if not _exiting and is_initialized():
            _fetch_functions()
            if "ray.util.metrics" in sys.modules:
                sys.modules["ray.util.metrics"].flush()
        printer, _printer = _printer, None
        try:
            if printer is not None:
                printer.finish()
        finally:  # a second Ctrl-C: nobody waits for the workers any more
            _core.shutdown()


def _fetch_functions():
    from ray._private import definition

    definition.fetch_all()


def _at_exit():
    global _exiting
    _exiting = True
    # A forked child runs its parent's exit functions too, and the system is not its to end; nor is
    # it a worker's.
    if session.pid == os.getpid() and session.mode == SCRIPT_MODE:
        _core.begin_exit()
        shutdown()


# Now, and not when a session begins: the last registered is called first, and what the program
# registers from here on may still use the system.
atexit.register(_at_exit)


def remote(*args, **options):
    """Makes a function remote, or a class an actor class.

    Used as `@ray.remote`, as `@ray.remote(num_cpus=2, ...)`, or as `ray.remote(thing)`.

        @ray.remote
        def square(x):
            return x * x

        @ray.remote(num_cpus=2)
        class Counter:
            def __init__(self):
                self.n = 0

            def add(self, k):
                self.n += k
                return self.n

        refs = [square.remote(i) for i in range(4)]     # four tasks; returns at once
        print(ray.get(refs))                            # [0, 1, 4, 9]
        counter = Counter.remote()                      # a process of its own
        print(ray.get(counter.add.remote(5)))           # 5

    Options of functions and classes, here and in `.options(...)`, which overrides them for one use:
        num_cpus, num_gpus, memory, resources, accelerator_type: what it needs. A task has 1 CPU, an
            actor none once it is there, unless it says so.
        name: of the task, for `ps`, timeline and messages; of the actor, for `ray.get_actor`.
        runtime_env: variables, files and packages around it (docs/runtime-env.md).
        scheduling_strategy, label_selector, fallback_strategy: where it runs (docs/placement.md).

    Options of functions only:
        num_returns: how many references a call gives (1); "streaming" or "dynamic" for one that
            yields.
        max_retries: how often it is run again when its worker dies (3; -1: without end).
        retry_exceptions: True, or a list of exceptions, after which it is run again too.
        max_calls: after how many tasks its worker ends (0: never).

    Options of classes only:
        namespace, get_if_exists, lifetime="detached": who finds its name, and until when.
        max_restarts: how often it is made again when its process dies (0; -1: without end).
        max_task_retries: how often a call that was running then is run again (0).
        max_concurrency, concurrency_groups: how many calls at once, in threads or coroutines.
        max_pending_calls: how many calls a handle may have open (-1: any number).

    `help(ray.remote_function.RemoteFunction)` and `help(ray.actor.ActorClass)` have what is made.
    """
    if len(args) == 1 and not options:
        return _make_remote(args[0], {})
    if args or not options:
        raise TypeError(
            "use @ray.remote without arguments, or with options by name, as in "
            "@ray.remote(num_returns=2)"
        )
    return lambda target: _make_remote(target, options)


def _make_remote(target, options):
    if isinstance(target, type):
        from ray import actor

        return actor.make(target, options)
    # Functions compiled by Cython have a type of their own for each version of Cython.
    if isinstance(target, _FUNCTION) or type(target).__name__ in (
        "cython_function_or_method",
        "builtin_function_or_method",
    ):
        from ray import remote_function

        return remote_function.make(target, options)
    raise TypeError(f"ray.remote takes a function or a class, not {type(target).__name__}")


def kill(actor, *, no_restart: bool = True):
    """Ends an actor at once; calls that it has not finished fail with ActorDiedError.

    With no_restart=False only its process is killed: it is restarted if it has restarts left
    (max_restarts), and calls that it had not begun run then.

        counter = Counter.remote()
        ray.kill(counter)
        ray.get(counter.add.remote(1))      # raises ActorDiedError
    """
    from ray.actor import ActorHandle

    if not isinstance(actor, ActorHandle):
        raise ValueError(f"ray.kill takes the handle of an actor, not {type(actor).__name__}")
    _core.kill_actor(actor._ray_actor_ref, bool(no_restart))


def cancel(ray_waitable, *, force: bool = False, recursive: bool = True):
    """Cancels the task that makes this object, or the items of this generator; with `recursive` also
    the tasks that it has started.

    A task that waits never runs. One that runs gets a KeyboardInterrupt; with `force` its worker is
    killed. A method of an async actor gets asyncio.CancelledError; other methods of actors can ask
    get_runtime_context().is_canceled(). `ray.get` raises TaskCancelledError, unless the task has
    returned something all the same. It is not retried. Does not wait for the task, and does nothing
    if that is over.

        ref = slow.remote()
        ray.cancel(ref)
        ray.get(ref)                        # raises TaskCancelledError
    """
    if not isinstance(ray_waitable, _core.ObjectRef):
        ray_waitable = _end_of(ray_waitable)
    _core.cancel(ray_waitable, force, recursive)


def _end_of(generator):
    from ray._private.passed import PassedGenerator

    if not isinstance(generator, (_core.ObjectRefGenerator, PassedGenerator)):
        raise TypeError(f"ray.cancel() only supported for object refs. Got: {type(generator)}.")
    return generator.completed()


@functools.lru_cache(1024)
def _cpus_of(shape):
    return _core.shape_demand(shape).get("CPU", 1)


def _set_shape(shape):
    """Called in a worker when its next task asks for other resources than the one before."""
    from ray._private import placing, threads

    threads.use(_cpus_of(shape))
    placing.note_shape(shape)


def __getattr__(name):
    if name == "_global_node":  # None as long as there is none
        return global_worker.node
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
