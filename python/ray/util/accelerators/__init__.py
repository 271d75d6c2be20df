"""Names of accelerators, for the option `accelerator_type` of tasks and actors.

    @ray.remote(num_gpus=1, accelerator_type=ray.util.accelerators.NVIDIA_A100)

A task with it runs on a node that offers the resource "accelerator_type:A100": give it to a node by
`ray.init(resources={"accelerator_type:A100": 1})`. On a node without it the task waits.
"""

from ray.util.accelerators.accelerators import *  # noqa: F403
