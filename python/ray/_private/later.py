"""The one way to say that something of Ray is not here, instead of a bare "no module" or "no
attribute".
"""

import sys

# What Ray's users know and Mobula does not have, by package: modules and other names.
_LATER = {
    package: frozenset(names.split())
    for package, names in {
        "ray": (
            "ActorClassID ActorID ClientBuilder FunctionID JobID Language LoggingConfig NodeID "
            "ObjectRefGenerator PlacementGroupID TaskID UniqueID WorkerID _common _raylet air "
            "autoscaler cancel client cluster_utils cpp_function dag dashboard data get_actor "
            "internal java_actor_class java_function job_config job_submission llm rllib "
            "runtime_env serve show_in_dashboard train tune types widgets workflow"
        ),
        "ray.experimental": (
            "array channel collective compiled_dag_ref dynamic_resources get_object_locations "
            "gradio_utils internal_kv locations raysort shuffle tqdm_ray"
        ),
        "ray.util": (
            "ActorGroup ActorPool accelerators actor_group actor_pool annotations as_completed "
            "check_serialize client client_connect collective connect dask debug "
            "deregister_serializer disable_log_once_globally disconnect enable_periodic_logging "
            "get_current_placement_group get_node_instance_id inspect_serializability iter "
            "iter_metrics joblib list_named_actors log_once map_unordered metrics multiprocessing "
            "pdb placement_group placement_group_table queue ray_debugpy register_serializer "
            "remove_placement_group rpdb scheduling_strategies serialization serialization_addons "
            "spark timer tpu tracing"
        ),
        "ray.util.state": (
            "StateApiClient get_actor get_job get_log get_node get_objects get_placement_group "
            "get_task get_worker list_actors list_cluster_events list_jobs list_logs list_nodes "
            "list_placement_groups list_runtime_envs list_tasks list_workers summarize_actors "
            "summarize_objects summarize_tasks"
        ),
    }.items()
}


def not_yet(what: str) -> NotImplementedError:
    """The error for a feature that Ray has and Mobula does not: raised, never swallowed."""
    return NotImplementedError(_words(what))


def no_attribute(package: str, name: str) -> AttributeError:
    """The error for a name that a package has not, or not yet."""
    if name in _LATER[package]:
        return AttributeError(_words(f"{package}.{name}"))
    return AttributeError(f"module '{package}' has no attribute '{name}'")


def _words(what):
    return f"{what} is not in Mobula yet"


class _Finder:
    """Asked by Python for modules that nobody else finds; for `from ray import name` too, if there
    is no such name.
    """

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, name = fullname.rpartition(".")
        if name not in _LATER.get(package, ()):
            return None
        # importlib.util.find_spec only asks whether there is such a module, and there is none: an
        # import is told why.
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            # Without the module's name, by which `from` would know that it may go on, to an error
            # that tells less.
            raise ModuleNotFoundError(_words(fullname))
        return None


sys.meta_path.append(_Finder)
