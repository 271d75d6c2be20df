"""What the classes that read and write a model's weights share."""


class Weights:
    """Weights by name, and as one flat array. A class that has this has `_read()`, a dict of arrays
    by name, and `_write(values)`, which takes such a dict for some or all of the names.
    """

    def get_weights(self) -> dict:
        """The weights, an array each, by name."""
        return self._read()

    def set_weights(self, new_weights: dict):
        """Sets the weights of the names given; names that this model does not have are left out."""
        import numpy

        here = self._read()
        values = {name: numpy.asarray(value) for name, value in new_weights.items() if name in here}
        if not values:
            raise ValueError(
                f"the model has {', '.join(here)} and none of {', '.join(map(str, new_weights))}"
            )
        for name, value in values.items():
            if value.shape != here[name].shape:
                raise ValueError(
                    f"{name} has the shape {here[name].shape}, and the new value {value.shape}"
                )
        self._write(values)

    def get_flat_size(self) -> int:
        """How many numbers all the weights have together."""
        return sum(value.size for value in self._read().values())

    def get_flat(self):
        """All the weights as one flat array."""
        import numpy

        return numpy.concatenate([value.ravel() for value in self._read().values()])

    def set_flat(self, new_weights):
        """Sets all the weights from one flat array, which must have get_flat_size() numbers."""
        here = self._read()
        shapes = {name: value.shape for name, value in here.items()}
        values = parts_of(new_weights, shapes)
        self._write({name: value.astype(here[name].dtype) for name, value in values.items()})


def parts_of(flat, shapes: dict) -> dict:
    """A flat array cut into arrays of these shapes, by name."""
    import math

    import numpy

    flat = numpy.asarray(flat).ravel()
    total = sum(math.prod(shape) for shape in shapes.values())
    if len(flat) != total:
        raise ValueError(f"the model has {total} weights, and the array {len(flat)}")
    values, start = {}, 0
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        values[name] = flat[start:end].reshape(shape)
        start = end
    return values
