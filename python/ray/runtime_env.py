"""What tasks and actors find around them: variables, files, modules, packages.

`runtime_env=` of `ray.init`, of `@ray.remote` and of `.options()` takes a dict, or a RuntimeEnv, which
is one that is checked where it is made:

    @ray.remote(runtime_env={"env_vars": {"LEVEL": "3"}, "pip": ["emoji"]})
    def f(): ...

docs/runtime-env.md has every field.
"""

from ray._private import runtime_env as _checks

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]


class RuntimeEnvConfig(dict):
    """How a runtime environment is set up, the field `config` of one.

    RuntimeEnv(pip=["emoji"], config=RuntimeEnvConfig(setup_timeout_seconds=120))

    Args:
        setup_timeout_seconds: after which tasks fail with RuntimeEnvSetupError; -1: never.
        eager_install: whether `ray.init` sets its environment up before a task needs it.
    """

    def __init__(
        self,
        setup_timeout_seconds: int = _checks.SETUP_TIMEOUT,
        eager_install: bool = True,
        log_files: "list[str] | None" = None,
    ):
        super().__init__(
            _checks.config(
                {
                    "setup_timeout_seconds": setup_timeout_seconds,
                    "eager_install": eager_install,
                    "log_files": log_files or [],
                }
            )
        )


class RuntimeEnv(dict):
    """A runtime environment: a dict of its fields, checked.

    env = RuntimeEnv(env_vars={"OMP_NUM_THREADS": "2"}, working_dir="code")
    ray.init(runtime_env=env)

    Args:
        working_dir: a folder or a zip file, which workers get a copy of as their working directory.
        py_modules: folders, wheels or modules that workers can import.
        py_executable: the interpreter of workers, and its arguments.
        excludes: what of folders is left out, as in a .gitignore.
        pip, uv: packages beside those of the driver's environment, or a requirements file.
        env_vars: variables of the environment; "${NAME}" stands for a value of before.
        worker_process_setup_hook: a function that every worker calls when it starts.
        config: a RuntimeEnvConfig.
    """

    def __init__(self, *, _validate: bool = True, **fields):
        fields = {name: value for name, value in fields.items() if value is not None}
        super().__init__(_checks.check(fields) if _validate else fields)

    def to_dict(self) -> dict:
        """The fields in a plain dict."""
        return dict(self)

    def serialize(self) -> str:
        """The fields as JSON; RuntimeEnv.deserialize reads it."""
        import json

        return json.dumps(self, sort_keys=True)

    @classmethod
    def deserialize(cls, text: str) -> "RuntimeEnv":
        """What serialize has written."""
        import json

        return cls(**json.loads(text))
