"""Names of Ray's early years that programs still use."""

from ray._private.later import no_attribute


def __getattr__(name):
    import importlib

    if name == "TensorFlowVariables":
        return importlib.import_module("ray.experimental.tf_utils").TensorFlowVariables
    if name in ("get_local_object_locations", "get_object_locations"):
        return getattr(importlib.import_module("ray.experimental.locations"), name)
    if name in ("internal_kv", "locations", "tf_utils", "tqdm_ray", "ui"):
        return importlib.import_module("ray.experimental." + name)
    raise no_attribute(__name__, name)
