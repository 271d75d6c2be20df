"""ray.experimental.KerasVariables."""

import pytest

keras = pytest.importorskip("keras")
import numpy  # noqa: E402

import ray  # noqa: E402
from ray.experimental import KerasVariables  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")


def model(name):
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, name="hidden"),
            keras.layers.BatchNormalization(name="normal"),
            keras.layers.Dense(1, name="out"),
        ],
        name=name,
    )


def test_weights_by_name():
    one, other = model("one"), model("other")
    weights = KerasVariables(one).get_weights()
    assert len(weights) == 8
    assert any("hidden" in name for name in weights)
    x = numpy.ones((2, 3), numpy.float32)
    assert not numpy.allclose(one(x), other(x))
    KerasVariables(other).set_weights(ray.get(ray.put(weights)))
    assert numpy.allclose(one(x), other(x))


def test_weights_as_one_array():
    one, other = KerasVariables(model("one")), KerasVariables(model("other"))
    flat = one.get_flat()
    assert flat.shape == (one.get_flat_size(),) == (12 + 4 + 4 * 4 + 4 + 1,)
    other.set_flat(ray.get(ray.put(flat)))
    assert numpy.array_equal(other.get_flat(), flat)


def test_names_that_are_alike_are_told_apart():
    both = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(2)])
    assert len(KerasVariables(both).get_weights()) == 4


def test_what_does_not_fit_is_told():
    variables = KerasVariables(model("one"))
    with pytest.raises(ValueError, match=r"has 37 weights, and the array 3"):
        variables.set_flat([1, 2, 3])
    with pytest.raises(ValueError, match="none of nothing"):
        variables.set_weights({"nothing": 1})
    with pytest.raises(ValueError, match="no weights yet"):
        KerasVariables(keras.Sequential([keras.layers.Dense(2)])).get_weights()
    with pytest.raises(TypeError, match="Keras model, not dict"):
        KerasVariables({})


def test_training_in_an_actor():
    @ray.remote
    class Trainer:
        def __init__(self):
            self.model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            self.model.compile("sgd", "mse")
            self.variables = KerasVariables(self.model)

        def train(self, flat):
            self.variables.set_flat(flat)
            x = numpy.linspace(0, 1, 64).reshape(-1, 1)
            self.model.fit(x, 2 * x + 1, epochs=20, verbose=0)
            return self.variables.get_flat()

    flat = ray.get(Trainer.remote().train.remote(numpy.zeros(2)))
    assert 0.2 < flat[0] < 2.2 and 0.5 < flat[1] < 2
