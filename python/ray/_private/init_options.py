"""What `ray.init` takes besides what it acts on: what there is nothing to do for, and what comes
later.
"""

from ray._private.later import not_yet

# These say how something is to be reached that a session here does not have: the dashboard, the
# export of metrics, Redis. A program that names them is right without.
_NOTHING_TO_DO = {
    "_metrics_export_port": int,
    "_redis_password": str,
    "_redis_username": str,
    "dashboard_host": str,
    "dashboard_port": int,
}

# With the values, besides None, that mean the same as leaving it out.
_LATER = {
    "_driver_object_store_memory": (),
    "_enable_object_reconstruction": (False,),
    "_node_ip_address": ("127.0.0.1", "localhost"),
    "_node_name": (),
    "_plasma_directory": (),
    "_skip_env_hook": (False, True),  # there is no such hook
    "_tracing_startup_hook": (),
    "cgroup_path": (),
    "enable_resource_isolation": (False,),
    "include_dashboard": (False,),
    "include_webui": (False,),
    "logging_config": (),
    "proxy_server_url": (),
    "system_reserved_cpu": (),
    "system_reserved_memory": (),
}


def refuse_unknown(names):
    """Raises if one of these is no option of ray.init: most likely a typo."""
    unknown = sorted(set(names) - _NOTHING_TO_DO.keys() - _LATER.keys())
    if unknown:
        raise RuntimeError(f"ray.init does not know {', '.join(unknown)}")


def check(given: dict):
    """Raises for what is not there yet, and for a value that its option can't have."""
    for name, value in given.items():
        if value is None:
            continue
        if name in _LATER:
            if not any(value == default for default in _LATER[name]):
                raise not_yet(f"ray.init({name}={value!r})")
        elif not isinstance(value, _NOTHING_TO_DO[name]):
            raise TypeError(
                f"{name} must be of type {_NOTHING_TO_DO[name].__name__}, not "
                f"{type(value).__name__}"
            )


_SPELLED = {
    "memory": "_memory",
    "temp_dir": "_temp_dir",
    "spill": "object_spilling_directory",
}


def refuse_while_joining(node, given: dict):
    """Raises if an option says what a node has, and the node is there already."""
    wrong = [_SPELLED.get(name, name) for name, value in given.items() if value is not None]
    if wrong:
        raise ValueError(
            f"When connecting to an existing cluster, {' and '.join(wrong)} must not be provided: "
            f"the node at {node.address or node.folder} has been started already. Leave it out, or "
            'pass address="local" for a session of this program\'s own.'
        )


def of_job(job_config, namespace, runtime_env) -> tuple:
    """(namespace, runtime_env) of a JobConfig, or those that are given beside it."""
    from ray.job_config import JobConfig

    if isinstance(job_config, dict):
        job_config = JobConfig.from_json(job_config)
    if not isinstance(job_config, JobConfig):
        raise TypeError(f"job_config must be a JobConfig, not {type(job_config).__name__}")
    for name, nothing in (
        ("code_search_path", []),
        ("default_actor_lifetime", "non_detached"),
        ("jvm_options", []),
        ("metadata", {}),
    ):
        if getattr(job_config, name) != nothing:
            raise not_yet(f"{name} of a JobConfig")
    return namespace or job_config.ray_namespace, runtime_env or job_config.runtime_env or None
