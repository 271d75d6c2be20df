"""The options of tasks, actors and methods: which there are, what they may be, and what they come
to.

Options are checked where they are written (the decorator, .options()), so that a typo does not
surface in a worker. An option that Ray has and Mobula does not may only have its default: anything
else raises, it is never ignored.
"""

from ray import _core
from ray._private import placing
from ray._private.later import not_yet

_RESERVED = {
    "CPU": "num_cpus",
    "GPU": "num_gpus",
    "memory": "memory",
    "object_store_memory": "object_store_memory",
}
_PRECISION = 0.0001  # as in Ray
_ACCELERATOR_SHARE = 0.001  # what a task takes of "accelerator_type:...", as in Ray
_OLD_NAMES = {"num_return_vals": "num_returns"}

# What Ray takes and Mobula does not, with the values that mean the same as leaving it out.
_LATER_COMMON = {
    "_labels": (),
    "_metadata": (),
}
_LATER_TASK = {
    **_LATER_COMMON,
    "_num_objects_per_yield": (),
    "object_store_memory": (),
}
_LATER_ACTOR = {
    **_LATER_COMMON,
    "_actor_generator_backpressure_num_objects": (),
    "enable_tensor_transport": (False,),
    "object_store_memory": (),
}
_LATER_METHOD = {
    "name": (),
    "tensor_transport": (),
}


def quantity(name: str, value):
    """An amount of a resource: not negative, not too small to count, and of GPUs whole where it is
    more than 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be a finite number and not negative, not {value}")
    if 0 < value < _PRECISION:
        raise ValueError(
            f"{name} must be at least {_PRECISION:.4f}, which is the precision of resources, not "
            f"{value}"
        )
    if name == "num_gpus" and value > 1 and value != int(value):
        raise ValueError(f"{name} must be whole where it is more than 1, not {value}")
    return value


def resources(value):
    """The resources a user names; CPU and its like have options of their own."""
    if not isinstance(value, dict):
        raise TypeError(
            f"resources must be a dict of names and amounts, not {type(value).__name__}"
        )
    for name, amount in value.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a resource must be a str, not {type(name).__name__}")
        if not name or "\0" in name:
            raise ValueError(
                f"the name of a resource must not be empty or contain a NUL, as {name!r} does"
            )
        if name in _RESERVED:
            raise ValueError(f"resources can't have {name!r}: use {_RESERVED[name]} instead")
        quantity(f"resources[{name!r}]", amount)
    return dict(value)


_MOST = 2**31 - 1  # as the core counts


def _count(least: int, endless: bool = False, most: int = _MOST):
    def check(name, value):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        if value < least and not (endless and value == -1):
            raise ValueError(
                f"{name} must be at least {least}{' or -1 (without end)' if endless else ''}, not "
                f"{value}"
            )
        if value > most:
            raise ValueError(f"{name} must be at most {most}, not {value}")
        return value

    return check


def _num_returns(name, value):
    if isinstance(value, str):
        if value not in ("streaming", "dynamic"):
            raise ValueError(f'{name} must be an int, "streaming" or "dynamic", not {value!r}')
        return value
    return _count(0, most=_core.MAX_RETURNS)(name, value)


def _text(name, value):
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value


def _retry_exceptions(name, value):
    if isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{name} must be a bool or a list of exception classes, not {type(value).__name__}"
        )
    for item in value:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise TypeError(f"{name} must list exception classes, and {item!r} is none")
    return tuple(value)


def _switch(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return value


def _runtime_env(name, value):
    from ray._private import runtime_env

    return runtime_env.check(value)


_PRIORITY_MOST = 100  # as the scheduler's


def _priority(name, value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not -_PRIORITY_MOST <= value <= _PRIORITY_MOST:
        raise ValueError(f"{name} must be {-_PRIORITY_MOST} to {_PRIORITY_MOST}, not {value}")
    return value


_RESOURCES = {
    "accelerator_type": _text,
    "fallback_strategy": placing.check_fallback,
    "label_selector": placing.check_selector,
    "memory": quantity,
    "num_cpus": quantity,
    "num_gpus": quantity,
    "placement_group": placing.check_group,
    "placement_group_bundle_index": _count(-1),
    "placement_group_capture_child_tasks": _switch,
    "runtime_env": _runtime_env,
    "scheduling_strategy": placing.check_strategy,
    "resources": lambda name, value: resources(value),
}
_BACKPRESSURE = "_generator_backpressure_num_objects"
_TASK = {
    **_RESOURCES,
    "priority": _priority,
    "enable_task_events": _switch,
    _BACKPRESSURE: _count(1, endless=True, most=_core.MAX_LIMIT),
    "max_calls": _count(0),
    "max_retries": _count(0, endless=True),
    "name": _text,
    "num_returns": _num_returns,
    "retry_exceptions": _retry_exceptions,
}
_PLACES = (
    "fallback_strategy",
    "label_selector",
    "placement_group",
    "placement_group_bundle_index",
    "scheduling_strategy",
)
_NAME_MAX = 255  # bytes, as the core takes them


def name(name, value):
    """A name that is given to an actor, or to a placement group."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value or "\0" in value or len(value.encode(errors="replace")) > _NAME_MAX:
        raise ValueError(
            f"{name} must have 1 to {_NAME_MAX} bytes, and no NUL among them, unlike {value!r}"
        )
    return value


def _lifetime(name, value):
    if value not in ("detached", "non_detached"):
        raise ValueError(f'{name} must be "detached", "non_detached" or None, not {value!r}')
    return value


def _concurrency_groups(option, value):
    if value == []:  # what Ray takes for none
        return {}
    if not isinstance(value, dict):
        raise TypeError(
            f"{option} must be a dict of names and numbers of calls, as in {{'io': 2}}, not "
            f"{type(value).__name__}"
        )
    if len(value) >= _core.MAX_GROUPS:
        raise ValueError(f"{option} may have {_core.MAX_GROUPS - 1} groups, not {len(value)}")
    for group, most in value.items():
        name(f"the name of a group in {option}", group)
        _count(1)(f"{option}[{group!r}]", most)
    return dict(value)


_ACTOR = {
    **_RESOURCES,
    "priority": _priority,
    "enable_task_events": _switch,
    "allow_out_of_order_execution": _switch,
    "concurrency_groups": _concurrency_groups,
    "get_if_exists": _switch,
    "lifetime": _lifetime,
    "max_pending_calls": _count(1, endless=True),
    "name": name,
    "namespace": name,
    "max_concurrency": _count(1),
    "max_restarts": _count(0, endless=True),
    "max_task_retries": _count(0, endless=True),
}
_METHOD = {
    _BACKPRESSURE: _count(1, endless=True, most=_core.MAX_LIMIT),
    "concurrency_group": name,
    "enable_task_events": _switch,
    "max_task_retries": _count(0, endless=True),
    "num_returns": _num_returns,
    "retry_exceptions": _retry_exceptions,
}


def _checked(what, known, later, given):
    found = {}
    for name, value in given.items():
        name = _OLD_NAMES.get(name, name)
        if name in known:
            found[name] = None if value is None else known[name](name, value)
        elif name in later:
            if value is not None and not any(value == default for default in later[name]):
                raise not_yet(f"{name} for {what}")
        else:
            raise ValueError(
                f"{name!r} is no option for {what}; there are {', '.join(sorted(known))}"
            )
    return found


def for_task(given: dict) -> dict:
    """Checks the options of a remote function; None stands for the default."""
    return _checked("a remote function", _TASK, _LATER_TASK, given)


def for_actor(given: dict) -> dict:
    """Checks the options of an actor class."""
    return _checked("an actor", _ACTOR, _LATER_ACTOR, given)


def _refuse_priority(given):
    if given.get("priority") is not None:
        raise ValueError(
            "priority is no option for an actor's method: an actor's calls keep their order. Give "
            "the method a concurrency_group of its own"
        )


def for_method(given: dict) -> dict:
    """Checks the options of an actor's method."""
    _refuse_priority(given)
    return _checked("an actor's method", _METHOD, _LATER_METHOD, given)


def for_call(given: dict) -> dict:
    """Checks the options of calls of an actor's method: those of the method, and `name`."""
    _refuse_priority(given)
    return _checked("a call of an actor's method", {**_METHOD, "name": name}, _LATER_METHOD, given)


def chosen(options: dict, name: str, default):
    """The value of an option, or the default where it is not given or None."""
    value = options.get(name)
    return default if value is None else value


def demand(options: dict, cpus) -> dict:
    """The resources that these options ask for, without the zeros; `cpus` where they do not say."""
    found = dict(options.get("resources") or ())
    found["CPU"] = chosen(options, "num_cpus", cpus)
    found["GPU"] = chosen(options, "num_gpus", 0)
    found["memory"] = chosen(options, "memory", 0)
    if options.get("accelerator_type"):
        found[f"accelerator_type:{options['accelerator_type']}"] = _ACCELERATOR_SHARE
    return {name: float(amount) for name, amount in found.items() if amount}


def results(num_returns, backpressure: "int | None") -> dict:
    """What the core is told of the results of a task or call."""
    if num_returns == "streaming":
        return {"flows": True, "limit": max(backpressure or 0, 0)}
    if num_returns == "dynamic":
        return {"num_returns": 1, "dynamic": True}
    return {"num_returns": num_returns}


def untold(options: dict) -> bool:
    """Whether what these options are for is left out of the timeline."""
    return options.get("enable_task_events") is False


def check_naming(options: dict):
    """Raises if what is said of an actor's name contradicts itself; when one is made, for options
    come together only then.
    """
    if options.get("name") is not None:
        return
    for name in ("get_if_exists", "namespace"):
        if options.get(name):
            raise ValueError(f"{name} is for an actor with a name: give it one by name=")


def where(options: dict, demands, name: str) -> "tuple | None":
    """Where that is to be met, as the core is told; None: anywhere."""
    environment, priority = 0, chosen(options, "priority", 0)
    if options.get("runtime_env"):
        from ray._private import runtime_env

        environment = runtime_env.number(options["runtime_env"])
    if placing.captured is None and not any(key in options for key in _PLACES):
        return (None, -1, 0, None, environment, priority) if environment or priority else None
    return placing.where(options, demands, name, environment, priority)
