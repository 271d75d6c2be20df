"""The weights of a Keras model as plain arrays, to be sent between processes."""

from ray.experimental._weights import Weights


class KerasVariables(Weights):
    """Reads and writes the weights of a Keras model as numpy arrays.

    Example::

        variables = ray.experimental.KerasVariables(model)
        weights = ray.put(variables.get_weights())        # in an actor: set_weights of these
        mean = sum(ray.get(flats)) / len(flats)           # flats: refs to get_flat() of others
        variables.set_flat(mean)

    It works with Keras 2 and 3 and all of their backends. The order is that of `model.weights`; the
    names are Keras' own, without that of the model. Keras numbers the layers of a process, so the
    same code run twice in one process makes layers with different names: give them names there, or
    use the flat array, which goes by position.

    Args:
        model: a Keras model that is built: it has weights once it knows the shape of its input.
    """

    def __init__(self, model):
        if not hasattr(model, "get_weights") or not hasattr(model, "weights"):
            raise TypeError(f"KerasVariables is for a Keras model, not {type(model).__name__}")
        self.model = model

    def _read(self):
        values = self.model.get_weights()
        if not values:
            raise ValueError(
                f"the model {self.model.name} has no weights yet: build it, or call it once"
            )
        return dict(zip(_names(self.model), values, strict=True))

    def _write(self, values):
        self.model.set_weights(list({**self._read(), **values}.values()))


def _names(model):
    """A name for each variable. Keras 3 has paths, which differ and may begin with the model's own
    name; names of Keras 2 may be alike.
    """
    names = []
    for variable in model.weights:
        path = getattr(variable, "path", variable.name)
        name = base = path.removeprefix(model.name + "/")
        count = 1
        while name in names:
            name = f"{base}_{count}"
            count += 1
        names.append(name)
    return names
