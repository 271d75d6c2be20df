"""num_returns="dynamic": one object with references to all that a task has yielded.

(num_returns="streaming" is the core's: src/python/flow.c and items.c.)
"""

from ray import _core


class DynamicObjectRefGenerator:
    """The value of a task with num_returns="dynamic": the references to what it has yielded.

    for ref in ray.get(f.remote()):
        print(ray.get(ref))
    """

    def __init__(self, refs):
        self._refs = list(refs)

    def __iter__(self):
        while self._refs:
            yield self._refs.pop(0)

    def __len__(self):
        return len(self._refs)

    def __repr__(self):
        return f"DynamicObjectRefGenerator({len(self._refs)} references)"


def collect(values) -> DynamicObjectRefGenerator:
    """In a worker: what num_returns="dynamic" makes of a generator. An exception is its last item."""
    if not hasattr(values, "__next__"):
        raise ValueError(
            'a task with num_returns="dynamic" must return a generator, and this one returned '
            + type(values).__name__
        )
    refs = []
    try:
        for item in values:
            refs.append(_core.put(item))
    except Exception as error:
        refs.append(_core.put_error(error))
    return DynamicObjectRefGenerator(refs)
