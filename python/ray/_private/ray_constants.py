"""Where newer libraries look for ray.ray_constants."""

from ray.ray_constants import *  # noqa: F403
