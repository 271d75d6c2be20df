"""cloudpickle under the name that libraries import it by."""

from cloudpickle import *  # noqa: F403
from cloudpickle import (  # noqa: F401
    CloudPickler,
    Pickler,
    __version__,
    dump,
    dumps,
    load,
    loads,
    register_pickle_by_value,
    unregister_pickle_by_value,
)
