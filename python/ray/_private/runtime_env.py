"""Runtime environments, where tasks are submitted: what their fields may be, how those of a task join
those of the task that submits it, and how the daemon is told of them.

The daemon knows an environment by a number (src/node/environment.h): variables, a command, and words
for the zygote, which makes it true (environment.py). Folders travel as packages (packages.py).
"""

import os
import re

from ray import _core
from ray._private.later import not_yet

SETUP_TIMEOUT = 600
_LATER = frozenset(
    "conda container image_uri java_jars jars mpi nsight rocprof_sys _nsight _rocprof_sys".split()
)
_UNSET = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


# ---- what may be said ----


def check(given) -> dict:
    """The fields of an environment that a user has written, without those that say nothing."""
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env must be a dict or a RuntimeEnv, not {type(given).__name__}")
    found = {}
    for name, value in given.items():
        if name in _LATER:
            if value:
                raise not_yet(f"{name} in runtime_env" + _INSTEAD.get(name, ""))
            continue
        if name.startswith("_") and name in ("_ray_commit", "_inject_current_ray", "_ray_release"):
            continue  # which Ray's own tools add, and which means nothing to a program
        if name not in _FIELDS:
            raise ValueError(
                f"runtime_env has no field {name!r}; there are {', '.join(sorted(_FIELDS))}"
            )
        if value is not None:
            found[name] = _FIELDS[name](value)
    if "pip" in found and "uv" in found:
        raise ValueError("runtime_env can have pip or uv, not both: they install the same packages")
    if "py_executable" in found and ("pip" in found or "uv" in found):
        raise ValueError(
            "runtime_env can't have py_executable beside pip or uv, which make an interpreter of "
            "their own: install the packages where py_executable is"
        )
    return {name: value for name, value in found.items() if value not in (None, {}, [], "")}


_INSTEAD = {"conda": " (start the driver in that environment, or use pip or uv)"}


def _text(name):
    def of(value):
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"runtime_env[{name!r}] must be a str, not {type(value).__name__}")
        return os.fspath(value)

    return of


def _env_vars(value):
    if not isinstance(value, dict):
        raise TypeError(f"runtime_env['env_vars'] must be a dict, not {type(value).__name__}")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(
                "runtime_env['env_vars'] must be of type Dict[str, str], and has "
                f"{name!r}: {text!r}"
            )
        if not name or "=" in name or "\0" in name + text:
            raise ValueError(f"runtime_env['env_vars'] has {name!r}, which no variable can be")
    return dict(value)


def _excludes(value):
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"runtime_env['excludes'] must be a list of str, not {value!r}")
    return list(value)


def _working_dir(value):
    path = _text("working_dir")(value)
    if not path or "://" in path:
        return _uri("working_dir", path)
    if os.path.isdir(path) or (os.path.isfile(path) and path.endswith(".zip")):
        return os.path.abspath(path)
    raise ValueError(f"runtime_env['working_dir'] {path!r} is no folder and no zip file")


def _uri(field, text):
    if not text or text.startswith(("file://", "http://", "https://")):
        if text and not text.endswith((".zip", ".whl")):
            raise ValueError(f"runtime_env[{field!r}] {text!r} must be of a zip file or a wheel")
        return text
    raise not_yet(f"runtime_env[{field!r}]={text!r} (download it, and name the file)")


def _py_modules(value):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"runtime_env['py_modules'] must be a list, not {type(value).__name__}")
    return [_py_module(one) for one in value]


def _py_module(value):
    if type(value).__name__ == "module":
        folders = list(getattr(value, "__path__", ()))
        value = folders[0] if folders else value.__file__
    path = _text("py_modules")(value)
    if "://" in path:
        return _uri("py_modules", path)
    if os.path.isdir(path) or (os.path.isfile(path) and path.endswith((".py", ".whl", ".zip"))):
        return os.path.abspath(path)
    raise ValueError(
        f"runtime_env['py_modules'] has {path!r}, which is no folder, wheel, zip or .py file"
    )


def _packages(tool):
    known = {f"{tool}_check": bool, "packages": list}
    known["pip_install_options" if tool == "pip" else "uv_pip_install_options"] = list

    def of(value):
        if isinstance(value, (str, os.PathLike)):
            value = {"packages": _requirements(tool, value)}
        elif isinstance(value, (list, tuple)):
            value = {"packages": list(value)}
        if not isinstance(value, dict) or "packages" not in value:
            raise TypeError(
                f"runtime_env[{tool!r}] must be a list of packages, a requirements file, or a dict "
                f"with 'packages', not {value!r}"
            )
        value = dict(value)
        if isinstance(value["packages"], (str, os.PathLike)):
            value["packages"] = _requirements(tool, value["packages"])
        for name, given in value.items():
            if name == f"{tool}_version":
                raise not_yet(f"runtime_env[{tool!r}][{name!r}] (the driver's own {tool} is used)")
            if name not in known:
                raise ValueError(
                    f"runtime_env[{tool!r}] has no field {name!r}; there are "
                    f"{', '.join(sorted(known))}"
                )
            if not isinstance(given, known[name]) or (
                known[name] is list and not all(isinstance(one, str) for one in given)
            ):
                raise TypeError(f"runtime_env[{tool!r}][{name!r}] can't be {given!r}")
        return value if value["packages"] else {}

    return of


def _requirements(tool, path):
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise ValueError(
            f"runtime_env[{tool!r}]: the requirements file {path!r} can't be read: {error.strerror}"
        ) from None
    return [line for line in lines if line and not line.startswith("#")]


def _hook(value):
    if callable(value) or isinstance(value, (str, bytes)):
        return value
    raise TypeError(
        "runtime_env['worker_process_setup_hook'] must be a function, or the name of one as "
        f"'module.function', not {type(value).__name__}"
    )


def config(value) -> dict:
    """Checks the field `config`."""
    if not isinstance(value, dict):
        raise TypeError(f"runtime_env['config'] must be a dict, not {type(value).__name__}")
    known = {"setup_timeout_seconds": int, "eager_install": bool, "log_files": list}
    for name, given in value.items():
        if name not in known:
            raise ValueError(
                f"runtime_env['config'] has no field {name!r}; there are {', '.join(sorted(known))}"
            )
        if not isinstance(given, known[name]) or (known[name] is int and isinstance(given, bool)):
            raise TypeError(
                f"runtime_env['config'][{name!r}] must be of type {known[name].__name__}, not "
                f"{given!r}"
            )
    if value.get("log_files"):
        raise not_yet("runtime_env['config']['log_files']")
    seconds = value.get("setup_timeout_seconds", SETUP_TIMEOUT)
    if seconds <= 0 and seconds != -1:
        raise ValueError(
            "runtime_env['config']['setup_timeout_seconds'] must be greater than zero or equals to "
            f"-1, not {seconds}"
        )
    return dict(value)


_FIELDS = {
    "config": config,
    "env_vars": _env_vars,
    "excludes": _excludes,
    "pip": _packages("pip"),
    "py_executable": _text("py_executable"),
    "py_modules": _py_modules,
    "uv": _packages("uv"),
    "worker_process_setup_hook": _hook,
    "working_dir": _working_dir,
}


# ---- whose they are ----


current: dict = {}  # of this process: what it submits has it too, and more


def merge(parent: dict, child: dict) -> dict:
    """What a task has whose submitter has `parent` and which names `child`: field by field the
    child's, but for variables, which are joined.
    """
    merged = {**parent, **child}
    if "pip" in child:
        merged.pop("uv", None)
    if "uv" in child:
        merged.pop("pip", None)
    variables = {**parent.get("env_vars", {}), **child.get("env_vars", {})}
    if variables:
        merged["env_vars"] = variables
    return merged


def number(given: "dict | None") -> int:
    """The daemon's number for a task's environment; 0: that of whoever submits it."""
    if not given or given == current:
        return 0
    return _register(merge(current, given))


def use(given: "dict | None"):
    """The environment of this driver's job, once it is connected."""
    global current
    current = {}
    if given:
        eager = given.get("config", {}).get("eager_install", True)
        wanted = _register(given, at_once=eager)
        _core.use_environment(wanted)
        current = _travels(given)


def refuse_in_process(given: dict):
    """For local_mode, where tasks run in the driver, which has an environment already."""
    if given:
        raise ValueError(
            "local_mode runs tasks in this process, which can't have another runtime_env "
            f"({', '.join(given)}): leave it out, or start the program in that environment"
        )


def adopt(given: dict):
    """In a worker: what it is in."""
    global current
    current = given


def _register(fields, at_once=False):
    from _pickle import dumps

    from ray._private import packages, services

    argv = []
    if "py_executable" in fields:
        import shlex

        argv = services.zygote_command(shlex.split(fields["py_executable"]))
    travels = _travels(fields)
    variables = [f"{name}={value}" for name, value in travels.get("env_vars", {}).items()]
    words = {"runtime_env": travels, "packages": packages.kept_in()}
    return _core.environment_number(argv, sorted(variables), dumps(words, 5), at_once)


def _travels(fields) -> dict:
    """The fields as workers get them: folders as packages, functions as bytes, values expanded."""
    from ray._private import packages

    made = dict(sorted(fields.items()))
    excludes = made.pop("excludes", [])
    if "env_vars" in made:
        made["env_vars"] = {name: _expand(text) for name, text in made["env_vars"].items()}
    if "working_dir" in made:
        made["working_dir"] = packages.of_folder(made["working_dir"], excludes, inside=True)
    if "py_modules" in made:
        made["py_modules"] = [
            packages.of_folder(path, excludes, inside=False) for path in made["py_modules"]
        ]
    hook = made.get("worker_process_setup_hook")
    if callable(hook):
        import cloudpickle

        made["worker_process_setup_hook"] = cloudpickle.dumps(hook)
    return made


def _expand(text):
    return _UNSET.sub("", os.path.expandvars(text)) if "$" in text else text


def load_hook(hook):
    """The function that workers are to call, from what has travelled."""
    if isinstance(hook, bytes):
        import cloudpickle

        return cloudpickle.loads(hook)
    from importlib import import_module

    module, _, name = hook.rpartition(".")
    if not module:
        raise ValueError(f"worker_process_setup_hook {hook!r} must be 'module.function'")
    return getattr(import_module(module), name)


def shown() -> dict:
    """The current environment, for people and programs that ask for it."""
    from ray.runtime_env import RuntimeEnv

    return RuntimeEnv(_validate=False, **current)
