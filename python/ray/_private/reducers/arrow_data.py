"""Arrow's arrays, and so the tables, batches and columns that are made of them.

pyarrow pickles their memory as buffers, which are read in place. But of a slice it pickles the
whole: ten rows of a table of a gigabyte are a gigabyte. Here an array that shows less than half of
its memory is copied first.
"""

import pyarrow

_SMALL = 4096  # what is left out must be worth a copy


def reducer_of(kind):
    return _reduce if isinstance(kind, type) and issubclass(kind, pyarrow.Array) else None


def _reduce(array):
    whole = array.get_total_buffer_size()
    if whole > _SMALL and whole > 2 * array.nbytes:
        try:
            array = pyarrow.concat_arrays([array])
        except pyarrow.ArrowNotImplementedError:  # of this type
            pass
    return array.__reduce_ex__(5)
