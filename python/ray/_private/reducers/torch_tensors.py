"""torch's tensors.

torch pickles a tensor's storage as a file of its own, inside of the pickle, and with a view of a
part of it the whole. Here the memory of a dense tensor in the processor's memory goes beside the
pickle, and of a view what it shows.

A reader gets a copy. torch has no read-only tensors: one over the store itself would take part in
`add_` and `out=` like any other, and a write to the store ends the process. Ray copies too. Where
a program only reads, as with the weights of a model that many actors use,
RAY_ENABLE_ZERO_COPY_TORCH_TENSORS=1 in the reader's environment gives it tensors over the store.

torch pickles all others: tensors that want gradients, sparse, quantized and nested ones, those on
other devices, with attributes of the program, and those whose elements overlap or have gaps.
Parameters hold their tensor as `data`, so they travel this way too.
"""

import os
import warnings
from _pickle import PickleBuffer
from importlib.util import find_spec

import torch

_IN_PLACE = "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS"


# torch says so of every tensor over the store, which is what the reader asked for.
warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)


def reducer_of(kind):
    if kind is not torch.Tensor or find_spec("numpy") is None:  # torch works without numpy
        return None
    return _reduce


def _reduce(tensor):
    if not _is_simple(tensor):
        return tensor.__reduce_ex__(5)
    memory = torch.as_strided(tensor, (tensor.numel(),), (1,)).view(torch.uint8).numpy()
    shape, strides = tuple(tensor.shape), tensor.stride()
    if tensor.is_contiguous():
        strides = None
    return _rebuild, (PickleBuffer(memory), tensor.dtype, shape, strides)


def _is_simple(tensor):
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_nested)
        and not (tensor.is_conj() or tensor.is_neg() or tensor.__dict__)
        and not any(getattr(tensor, "names", ()))  # which newer versions of torch do not have
        and tensor.numel() > 0
        and (tensor.is_contiguous() or _is_dense(tensor))
    )


def _is_dense(tensor):
    """Whether the elements fill a piece of memory, in whichever order: transposed, channels last."""
    expected = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length == 1:
            continue
        if stride != expected:
            return False
        expected *= length
    return True


def _rebuild(buffer, dtype, shape, strides):
    if os.environ.get(_IN_PLACE) == "1":
        memory = torch.frombuffer(buffer, dtype=torch.uint8)
    else:
        memory = torch.empty(memoryview(buffer).nbytes, dtype=torch.uint8)
        _copy(memory, buffer)
    flat = memory.view(dtype)
    return flat.view(shape) if strides is None else flat.as_strided(shape, strides)


def _copy(memory, buffer):
    import numpy

    numpy.copyto(memory.numpy(), numpy.frombuffer(buffer, numpy.uint8))  # not under Python's lock
