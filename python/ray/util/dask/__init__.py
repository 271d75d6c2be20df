"""dask's graphs on tasks: `dask.compute(..., scheduler=ray.util.dask.ray_dask_get)`."""

try:
    import dask as _dask  # noqa: F401
except ImportError:
    raise ImportError("ray.util.dask needs dask: pip install dask") from None

from ray.util.dask.callbacks import ProgressBarCallback, RayDaskCallback, local_ray_callbacks
from ray.util.dask.scheduler import (
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
)

__all__ = [
    "ProgressBarCallback",
    "RayDaskCallback",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "local_ray_callbacks",
    "ray_dask_get",
    "ray_dask_get_sync",
]
