"""ray.experimental.TorchVariables."""

import pytest

torch = pytest.importorskip("torch")
import numpy  # noqa: E402

import ray  # noqa: E402
from ray.experimental import TorchVariables  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")


def module(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
    )


def same(a, b):
    return all(
        torch.equal(left, right)
        for left, right in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def test_weights_by_name():
    one, other = module(1), module(2)
    one.train()(torch.randn(8, 3))  # the running mean moves
    weights = TorchVariables(one).get_weights()
    assert list(weights) == list(one.state_dict())
    assert all(isinstance(value, numpy.ndarray) for value in weights.values())
    assert not same(one, other)
    TorchVariables(other).set_weights(ray.get(ray.put(weights)))
    assert same(one, other)


def test_weights_are_copies():
    one = module()
    weights = TorchVariables(one).get_weights()
    before = weights["0.weight"].copy()
    with torch.no_grad():
        one[0].weight.add_(1)
    assert numpy.array_equal(weights["0.weight"], before)


def test_weights_as_one_array():
    one, other = TorchVariables(module(1)), TorchVariables(module(2))
    flat = one.get_flat()
    assert flat.shape == (one.get_flat_size(),) == (12 + 4 + 4 * 4 + 1 + 4 + 1,)
    other.set_flat(ray.get(ray.put(flat)))
    assert same(one.module, other.module)


def test_parameters_alone():
    variables = TorchVariables(module(), buffers=False)
    parameters = list(variables.module.parameters())
    assert variables.get_flat_size() == sum(p.numel() for p in parameters)
    variables.set_flat(numpy.arange(variables.get_flat_size()))
    assert parameters[0].detach().flatten().tolist() == list(range(12))
    assert parameters[0].requires_grad


def test_bfloat16_and_modules_that_share_weights():
    layer = torch.nn.Linear(4, 4).to(torch.bfloat16)
    tied = torch.nn.Sequential(layer, layer)
    variables = TorchVariables(tied)
    variables.set_flat(numpy.ones(variables.get_flat_size()))
    assert layer.weight.dtype is torch.bfloat16
    assert torch.equal(layer.weight.float(), torch.ones(4, 4))
    assert variables.get_weights()["0.weight"].dtype == numpy.float32


def test_what_does_not_fit_is_told():
    variables = TorchVariables(module())
    with pytest.raises(ValueError, match=r"has 38 weights, and the array 3"):
        variables.set_flat([1, 2, 3])
    with pytest.raises(ValueError, match=r"0.weight, .* none of weights, bias"):
        variables.set_weights({"weights": 1, "bias": 2})
    with pytest.raises(ValueError, match=r"0.weight has the shape \(4, 3\), .* \(3, 4\)"):
        variables.set_weights({"0.weight": numpy.zeros((3, 4))})
    with pytest.raises(TypeError, match="torch.nn.Module, not list"):
        TorchVariables([])


def test_averaging_over_actors():
    @ray.remote
    class Trainer:
        def __init__(self, seed):
            self.variables = TorchVariables(module(seed))

        def flat(self):
            return self.variables.get_flat()

        def set_flat(self, flat):
            self.variables.set_flat(flat)

    trainers = [Trainer.remote(seed) for seed in range(3)]
    flats = ray.get([trainer.flat.remote() for trainer in trainers])
    mean = ray.put(sum(flats) / 3)
    ray.get([trainer.set_flat.remote(mean) for trainer in trainers])
    for flat in ray.get([trainer.flat.remote() for trainer in trainers]):
        assert numpy.allclose(flat, sum(flats) / 3)
