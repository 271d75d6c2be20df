"""What a driver says of its job in one object: `ray.init(job_config=JobConfig(...))`."""

import json
from typing import Any

__all__ = ["JobConfig"]


class JobConfig:
    """Options of a job.

        ray.init(job_config=JobConfig(ray_namespace="mine"))

    Args:
        runtime_env: as that of ray.init.
        ray_namespace: as namespace of ray.init.
        jvm_options, code_search_path: are for Java and C++, which are not in Mobula.
        metadata, default_actor_lifetime: only what changes nothing, {} and "non_detached".
    """

    def __init__(
        self,
        jvm_options: "list[str] | None" = None,
        code_search_path: "list[str] | None" = None,
        runtime_env: "dict | None" = None,
        _client_job: bool = False,
        metadata: "dict | None" = None,
        ray_namespace: "str | None" = None,
        default_actor_lifetime: str = "non_detached",
        _py_driver_sys_path: "list[str] | None" = None,
    ):
        self.jvm_options = jvm_options or []
        self.code_search_path = code_search_path or []
        self.runtime_env = runtime_env or {}
        self.metadata = metadata or {}
        self.ray_namespace = ray_namespace
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_runtime_env(self, runtime_env: "dict | None", validate: bool = False) -> None:
        """Sets runtime_env; ray.init checks it."""
        self.runtime_env = runtime_env or {}

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Sets ray_namespace."""
        self.ray_namespace = ray_namespace

    def set_metadata(self, key: str, value: str) -> None:
        """Adds to metadata."""
        self.metadata[key] = value

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Sets default_actor_lifetime."""
        if default_actor_lifetime not in ("detached", "non_detached"):
            raise ValueError(
                'default_actor_lifetime must be "detached" or "non_detached", not '
                f"{default_actor_lifetime!r}"
            )
        self.default_actor_lifetime = default_actor_lifetime

    def to_json(self) -> str:
        """Itself as text."""
        return json.dumps(self.__dict__)

    @classmethod
    def from_json(cls, job_config_json: "dict[str, Any]") -> "JobConfig":
        """From a dict of its arguments.

        JobConfig.from_json({"ray_namespace": "mine"})
        """
        return cls(**job_config_json)
