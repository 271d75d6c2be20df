"""The one way to say that something of Ray is not here, instead of a bare "no module" or "no
attribute".
"""

import sys

# What Ray's users know and Mobula does not have: modules and other names, by package, and
# attributes, by class, of those whose other attributes are the user's own.
_LATER = {
    package: frozenset(names.split())
    for package, names in {
        "ray": (
            "ActorClassID ClientBuilder FunctionID Language "
            "LoggingConfig UniqueID __commit__ _common _config "
            "air client client_builder core cpp_function "
            "dashboard data includes internal java_actor_class java_function "
            "job_submission llm rllib serialization serve services "
            "show_in_dashboard tests train tune types widgets workflow"
        ),
        "ray._private": (
            "async_compat async_utils auto_init_hook client_mode_hook custom_types "
            "external_storage function_manager gcs_utils internal_api log log_monitor node "
            "object_ref_generator parameter profiling ray_logging ray_option_utils "
            "signature test_utils utils"
        ),
        "ActorClass": "__ray_metadata__ _default_options method_meta",
        "ActorHandle": (
            "_actor_method_call _deserialization_helper _get_local_state _ray_actor_language "
            "_ray_actor_method_cpus _ray_is_cross_language _ray_method_signatures "
            "_serialization_helper"
        ),
        "ray.data": (
            "ActorPoolStrategy DataContext DataIterator Dataset DatasetContext Datasink Datasource "
            "ExecutionOptions ExecutionResources Preprocessor Schema aggregate block context "
            "dataset datasource expressions extensions from_arrow from_arrow_refs from_blocks "
            "from_dask from_daft from_huggingface from_items from_mars from_modin from_numpy "
            "from_numpy_refs from_pandas from_spark from_tf from_torch grouped_data iterator llm "
            "preprocessor preprocessors random_access_dataset range range_tensor read_api read_avro "
            "read_bigquery read_binary_files read_csv read_databricks_tables read_datasource "
            "read_delta read_hudi read_iceberg read_images read_json read_lance read_mongo "
            "read_numpy read_parquet read_parquet_bulk read_sql read_text read_tfrecords "
            "read_videos read_webdataset set_progress_bars"
        ),
        "ray.experimental": (
            "array channel compiled_dag_ref dynamic_resources "
            "gradio_utils job multiprocessing queue raysort rdt sandbox "
            "shuffle state util"
        ),
        "ray.experimental.collective": "allgather allreduce reducescatter",
        "ray.util": (
            "annotations "
            "check_open_ports client_connect common connect "
            "debugpy disconnect "
            "horovod iter iter_metrics "
            "lightgbm pdb "
            "ray_debugpy "
            "rpdb serialization_addons "
            "sgd spark timer tpu tracing xgboost"
        ),
        "ray.util.state": (
            "StateApiClient api common exception get_actor get_job get_log get_node get_objects "
            "get_task get_worker list_actors list_cluster_events "
            "list_logs list_nodes list_runtime_envs list_tasks list_workers "
            "summarize_actors summarize_objects summarize_tasks"
        ),
    }.items()
}


_CORE = "Mobula is Ray's core only: tasks, actors and objects"
_CLIENT = (
    "there is no client for a cluster elsewhere. Run the driver on a node, where "
    "ray.init(address=...) joins it"
)
_REPLAY = "use `ray replay`, which runs a task that failed in your terminal, with --pdb"
_C = "the other language is C: see ray.cross_language.c_function and docs/c-api.md"
# What will not come, and what to do instead.
_REFUSED = {
    **dict.fromkeys(
        (
            "ray.air ray.data ray.llm ray.rllib ray.serve ray.train ray.tune ray.workflow "
            "ray.util.horovod ray.util.lightgbm ray.util.sgd ray.util.spark ray.util.xgboost"
        ).split(),
        _CORE,
    ),
    **dict.fromkeys(
        (
            "ray.ClientBuilder ray.client ray.client_builder ray.util.client_connect "
            "ray.util.connect ray.util.disconnect"
        ).split(),
        _CLIENT,
    ),
    **dict.fromkeys(
        "ray.util.debugpy ray.util.pdb ray.util.ray_debugpy ray.util.rpdb".split(), _REPLAY
    ),
    **dict.fromkeys("ray.cpp_function ray.java_actor_class ray.java_function".split(), _C),
    **dict.fromkeys(
        "ray.experimental.channel ray.experimental.compiled_dag_ref".split(),
        "calls of actors go through shared memory as they are: see ray.dag",
    ),
    "ray.util.tpu": "count TPUs as a resource of your own: resources={'TPU': 4}",
    "ray.util.tracing": "ray.timeline() has what ran when, and where",
}


def refused(name: str, what: "str | None" = None) -> NotImplementedError:
    """The error for something of Ray's that will not come: `name` is in the table of those, `what`
    how it was asked for.
    """
    return NotImplementedError(f"{what or name} is not in Mobula: {_REFUSED[name]}")


def not_yet(what: str) -> NotImplementedError:
    """The error for a feature that Ray has and Mobula does not: raised, never swallowed."""
    return NotImplementedError(_words(what))


def no_attribute(owner: str, name: str, words: "str | None" = None) -> AttributeError:
    """The error for a name that a package or class has not yet, or with `words` if there is no
    such name in Ray either.
    """
    if name in _LATER[owner]:
        return AttributeError(_words(f"{owner}.{name}"))
    return AttributeError(words or f"module '{owner}' has no attribute '{name}'")


class _Absent:
    """An attribute that Ray's class has and ours has not. Found by name, it says so; as an
    AttributeError, so that hasattr is right.
    """

    def __init__(self, name):
        self._name = name

    def __get__(self, instance, owner):
        raise AttributeError(_words(f"{owner.__name__}.{self._name}"))


def lacks(owner: type, names: str):
    """Makes these attributes of a class say that they are not there yet, on the class too."""
    for name in names.split():
        setattr(owner, name, _Absent(name))


def _words(what):
    why = _REFUSED.get(what) or _REFUSED.get(what.rpartition(".")[0])
    return f"{what} is not in Mobula yet" if why is None else f"{what} is not in Mobula: {why}"


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
