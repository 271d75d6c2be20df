"""How values of other libraries travel, where their own pickling would copy them more than once.

The pickler asks the table for each type of object that it meets. A type of a library that has a
module here is looked up in that module, which is imported then; so a library that a program does
not use costs nothing, and none is imported for its sake. What the program itself has registered
(copyreg, or with cloudpickle) goes first. What no module wants is pickled as the library does it:
subclasses among it, for only the library's own classes are looked up.

A module has `reducer_of(kind)`: what the pickler calls for an object of exactly that type, or None.
A reducer that does not want an object after all returns what its own `__reduce_ex__` gives.
"""

import importlib

_MODULES = {
    "numpy": "numpy_times",
    "PIL": "pillow_images",
    "torch": "torch_tensors",
    "pyarrow": "arrow_data",
    "polars": "polars_frames",
}


class Table:
    """A pickler's dispatch_table: `others`, dicts, in their order, and then the modules here."""

    def __init__(self, others):
        self._others = others
        self._found = {}  # by type of a library in _MODULES: its reducer, or None

    def __getitem__(self, kind):
        for other in self._others:
            if kind in other:
                return other[kind]
        library = kind.__module__
        if not isinstance(library, str):  # a class may call itself whatever it likes
            raise KeyError(kind)
        name = _MODULES.get(library.partition(".")[0])
        if name is None:
            raise KeyError(kind)
        if kind not in self._found:
            module = importlib.import_module(f"{__name__}.{name}")
            self._found[kind] = module.reducer_of(kind)
        reducer = self._found[kind]
        if reducer is None:
            raise KeyError(kind)
        return reducer
