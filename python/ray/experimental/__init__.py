"""Names of Ray's early years that programs still use, and their siblings."""

from ray._private.later import no_attribute

_VARIABLES = {
    "KerasVariables": "keras_utils",
    "TensorFlowVariables": "tf_utils",
    "TorchVariables": "torch_utils",
}


def __getattr__(name):
    import importlib

    if name in _VARIABLES:
        return getattr(importlib.import_module("ray.experimental." + _VARIABLES[name]), name)
    if name in ("get_local_object_locations", "get_object_locations"):
        return getattr(importlib.import_module("ray.experimental.locations"), name)
    if name in ("collective", "internal_kv", "locations", "tqdm_ray", "ui", *_VARIABLES.values()):
        return importlib.import_module("ray.experimental." + name)
    raise no_attribute(__name__, name)
