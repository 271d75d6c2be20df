"""numpy's arrays of times and spans.

numpy gives the memory of no such array as a buffer, and so pickles it inside of the pickle. Here it
goes as the integers that it consists of. The dtype goes by its name: numpy forgets the byte order
of a dtype of times when it pickles one.
"""

import numpy


def reducer_of(kind):
    return _reduce if kind is numpy.ndarray else None


def _reduce(array):
    dtype = array.dtype
    if dtype.kind not in "mM" or dtype.metadata:
        return array.__reduce_ex__(5)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()
    return numpy.ndarray.view, (array.view(dtype.byteorder + "i8"), dtype.str)
