"""The options of tasks, actors and methods, for checkers and editors: there is no such module at run
time. A test compares these with ray/_private/options.py, which checks them.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from ray.runtime_env import RuntimeEnv
from ray.util.placement_group import PlacementGroup

class _Resources(TypedDict, total=False):
    accelerator_type: str | None
    enable_task_events: bool | None
    fallback_strategy: Sequence[dict[str, Any]] | None
    label_selector: dict[str, str] | None
    memory: float | None
    num_cpus: float | None
    num_gpus: float | None
    placement_group: PlacementGroup | Literal["default"] | None
    placement_group_bundle_index: int | None
    placement_group_capture_child_tasks: bool | None
    resources: dict[str, float] | None
    runtime_env: dict[str, Any] | RuntimeEnv | None
    scheduling_strategy: Any

class TaskOptions(_Resources, total=False):
    _generator_backpressure_num_objects: int | None
    max_calls: int | None
    max_retries: int | None
    name: str | None
    priority: int | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None

class ActorOptions(_Resources, total=False):
    allow_out_of_order_execution: bool | None
    concurrency_groups: dict[str, int] | None
    get_if_exists: bool | None
    lifetime: Literal["detached", "non_detached"] | None
    max_concurrency: int | None
    max_pending_calls: int | None
    max_restarts: int | None
    max_task_retries: int | None
    name: str | None
    namespace: str | None
    priority: int | None

class MethodOptions(TypedDict, total=False):
    _generator_backpressure_num_objects: int | None
    concurrency_group: str | None
    enable_task_events: bool | None
    max_task_retries: int | None
    num_returns: int | Literal["streaming", "dynamic"] | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None
