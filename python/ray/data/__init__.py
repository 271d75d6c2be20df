"""Ray's datasets, which are not here: Mobula is Ray's core only.

The module is, for libraries that have a use for the core alone name it in their imports (Modin does,
for a conversion that few of its programs call). What they name so is refused where it is called, and
every other name where it is imported.
"""

from ray._private.later import no_attribute, refused


def from_pandas_refs(dfs):
    """Refused: there are no datasets. References to pandas frames are as good as ever.

    frames = ray.get(dfs)
    """
    raise refused("ray.data", "ray.data.from_pandas_refs")


def __getattr__(name):
    raise no_attribute(__name__, name)
