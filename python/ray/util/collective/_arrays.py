"""What a rank gives and gets: numpy arrays and torch's tensors in this machine's memory, as flat
numpy arrays.
"""

import sys

import numpy as np

from ray.util.collective.types import ReduceOp

_UFUNCS = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}
# Reduced in blocks of so many bytes, which stay in a core's cache until every rank's part of them
# has been added.
_BLOCK = 256 << 10


def as_array(tensor, what: str = "the tensor") -> np.ndarray:
    """The tensor's own memory as an array of numpy's."""
    if isinstance(tensor, np.ndarray):
        array = tensor
    elif (torch := sys.modules.get("torch")) is not None and isinstance(tensor, torch.Tensor):
        array = _of_torch(torch, tensor, what)
    else:
        raise RuntimeError(
            f"{what} is of an unrecognized type, {type(tensor).__name__}: numpy.ndarray and "
            "torch.Tensor (on the CPU) can be used"
        )
    if array.dtype.kind not in "biufc":
        raise RuntimeError(f"{what} has dtype {array.dtype}: only numbers and bools can be used")
    return array


def _of_torch(torch, tensor, what):
    if tensor.device.type != "cpu":
        raise NotImplementedError(
            f"{what} is on {tensor.device}, and collectives on GPUs are not in Mobula: use "
            "tensor.cpu()"
        )
    if tensor.layout != torch.strided:
        raise RuntimeError(f"{what} is not dense ({tensor.layout}): use tensor.to_dense()")
    try:
        return tensor.detach().numpy()
    except (TypeError, RuntimeError) as error:  # bfloat16, or bits that are yet to be conjugated
        raise RuntimeError(f"{what} can't be used as numpy's array: {error}") from None


def as_output(tensor, what: str = "the tensor") -> np.ndarray:
    """as_array for what is written to."""
    array = as_array(tensor, what)
    if not array.flags.writeable:
        raise ValueError(
            f"{what} is read-only, as arrays from ray.get are, and would be written to: use a copy "
            "of it, tensor.copy()"
        )
    return array


class Flat:
    """An array in one dimension: its own memory if that is in one piece, else a copy, which
    `close` writes back.
    """

    def __init__(self, array: np.ndarray):
        self._array = array
        if array.flags.c_contiguous:
            self.data = array.reshape(-1)
        else:
            self.data = np.ascontiguousarray(array).reshape(-1)

    def close(self):
        if not self._array.flags.c_contiguous:
            self._array[...] = self.data.reshape(self._array.shape)


def flat(array: np.ndarray) -> np.ndarray:
    """An array to be read, in one dimension; a copy if it does not lie in one piece."""
    return np.ascontiguousarray(array).reshape(-1)


def check_reduces(op, array: np.ndarray):
    """Raises if this operation does not go with such an array."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, not {op!r}")
    kind = array.dtype.kind
    if kind == "b" and op in (ReduceOp.SUM, ReduceOp.PRODUCT):
        raise RuntimeError(f"bools have MIN and MAX, no {op.name}: use array.astype('uint8')")
    if kind == "c" and op in (ReduceOp.MIN, ReduceOp.MAX):
        raise RuntimeError(f"complex numbers have no {op.name}")


def reduce_into(out: np.ndarray, others: list, op: ReduceOp):
    """out = out op others[0] op others[1] ..., all of them flat and of one length."""
    ufunc = _UFUNCS[op]
    step = max(1, _BLOCK // out.itemsize)
    for start in range(0, len(out), step):
        block = out[start : start + step]
        for other in others:
            ufunc(block, other[start : start + step], out=block)


def cuts(data: np.ndarray, parts: int) -> list:
    """The array in so many parts, whose sizes differ by one at most."""
    ends = [len(data) * i // parts for i in range(parts + 1)]
    return [data[ends[i] : ends[i + 1]] for i in range(parts)]
