"""The weights of a PyTorch module as plain arrays, to be sent between processes."""

from ray.experimental._weights import Weights


class TorchVariables(Weights):
    """Reads and writes the weights of a PyTorch module as numpy arrays.

    Example::

        variables = ray.experimental.TorchVariables(module)
        weights = ray.put(variables.get_weights())        # in an actor: set_weights of these
        mean = sum(ray.get(flats)) / len(flats)           # flats: refs to get_flat() of others
        variables.set_flat(mean)

    The names are those of `module.state_dict()`. Two that share their memory have a name each.

    Args:
        module: a torch.nn.Module.
        buffers: whether to take in what the module keeps beside its parameters, such as the
            running mean of a batch normalization. Without them the flat array has the size and
            order of `module.parameters()`.
    """

    def __init__(self, module, buffers: bool = True):
        if not hasattr(module, "state_dict") or not hasattr(module, "named_parameters"):
            raise TypeError(f"TorchVariables is for a torch.nn.Module, not {type(module).__name__}")
        self.module = module
        self.buffers = buffers

    def _tensors(self):
        if self.buffers:
            return {
                name: value
                for name, value in self.module.state_dict(keep_vars=True).items()
                if hasattr(value, "detach")  # not what a module's get_extra_state adds
            }
        return dict(self.module.named_parameters())

    def _read(self):
        return {name: _array(tensor) for name, tensor in self._tensors().items()}

    def _write(self, values):
        import torch

        tensors = self._tensors()
        with torch.no_grad():
            for name, value in values.items():
                # a copy, for torch wants memory that may be written
                tensors[name].copy_(torch.tensor(value))


def _array(tensor):
    """A copy of the tensor as an array. numpy has no bfloat16: it becomes float32."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return tensor.numpy().copy()
