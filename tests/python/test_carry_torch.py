"""torch's tensors through the store."""

import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import ray  # noqa: E402

pytestmark = pytest.mark.usefixtures("cluster")

DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.bool,
]


def through(value):
    return ray.get(ray.put(value))


def by_pickle(value):
    """What torch's own pickling makes of it: some versions fail at some values."""
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception:
        pytest.skip("this torch can't pickle it")


def assert_same(came, tensor):
    assert type(came) is type(tensor)
    assert (came.dtype, came.shape, came.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert (came.requires_grad, came.layout) == (tensor.requires_grad, tensor.layout)
    assert torch.equal(came, tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [6, 6000])  # inside of the pickle, and beside it
def test_every_dtype_arrives_as_it_was(dtype, count):
    tensor = torch.arange(count).reshape(2, -1).to(dtype)
    assert_same(through(tensor), tensor)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.T,
        lambda t: t.permute(1, 0, 2) if t.dim() == 3 else t,
        lambda t: t.reshape(10, 10, 10, 4).contiguous(memory_format=torch.channels_last),
        lambda t: t.reshape(1, -1, 1),
        lambda t: t[3],
        lambda t: t.reshape(()) if t.numel() == 1 else t.sum(),
        lambda t: t[:, 2:7],
        lambda t: t[::3],
        lambda t: t[:1].expand(50, -1),
        lambda t: t[5:5],
        lambda t: torch.empty(0, 3),
    ],
)
def test_shapes_and_strides(make):
    tensor = make(torch.arange(4000.0).reshape(100, 40))
    assert_same(through(tensor), tensor)


def test_a_slice_takes_only_what_it_shows_along():
    whole = torch.zeros(4 << 20)
    reference = ray.put(whole[:10])
    stored = [row for row in _objects() if row["object_id"] == reference.hex()]
    assert stored[0]["object_size"] < 10_000


def _objects():
    from ray.util.state import list_objects

    return [vars(row) if not isinstance(row, dict) else row for row in list_objects()]


def test_a_received_tensor_can_be_written_to():
    tensor = torch.ones(10_000)
    reference = ray.put(tensor)
    came = ray.get(reference)
    came.add_(1)
    torch.mul(came, 2, out=came)
    assert came.sum() == 40_000
    assert ray.get(reference).sum() == 10_000


def test_gradients_flow_through_a_received_tensor():
    @ray.remote
    def gradient(weights, x):
        weights.requires_grad_(True)
        (weights * x).sum().backward()
        return weights.grad

    x = torch.arange(3000.0)
    assert torch.equal(ray.get(gradient.remote(torch.ones(3000), x)), x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3000, requires_grad=True),
        lambda: torch.nn.Parameter(torch.ones(3000)),
        lambda: torch.nn.Parameter(torch.ones(3000), requires_grad=False),
        lambda: torch.eye(100).to_sparse(),
        lambda: torch.eye(100).to_sparse_csr(),
        lambda: torch.complex(torch.ones(3000), torch.ones(3000)).conj(),
        lambda: torch.quantize_per_tensor(torch.arange(3000.0), 0.1, 0, torch.qint32),
    ],
    ids=["grad", "parameter", "frozen", "sparse", "csr", "conj", "quantized"],
)
def test_what_torch_pickles_itself(make):
    expected = by_pickle(make())
    came = through(make())
    assert type(came) is type(expected)
    assert came.requires_grad == expected.requires_grad
    if expected.layout is torch.strided:
        assert torch.equal(came, expected)
    else:
        assert torch.equal(came.to_dense(), expected.to_dense())


class Named(torch.Tensor):
    pass


def test_subclasses_and_attributes_of_the_program():
    named = torch.ones(3000).as_subclass(Named)
    labelled = torch.ones(3000)
    labelled.label = "seven"
    assert vars(through(labelled)) == vars(by_pickle(labelled))
    expected = by_pickle(named)
    assert type(through(named)) is type(expected)


def test_modules_and_their_weights():
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    @ray.remote
    def run(module, x):
        return module(x).detach()

    x = torch.ones(3, 64)
    assert torch.allclose(ray.get(run.remote(module, x)), module(x))
    came = through(module.state_dict())
    assert list(came) == list(module.state_dict())
    assert all(torch.equal(came[name], module.state_dict()[name]) for name in came)


def test_in_place_where_the_reader_asks_for_it():
    code = """
import ray, torch, warnings
warnings.simplefilter("error")
ray.init(num_cpus=1)
reference = ray.put(torch.arange(100_000).reshape(100, 1000).T)
first, second = ray.get(reference), ray.get(reference)
assert first.data_ptr() == second.data_ptr()
assert torch.equal(first, torch.arange(100_000).reshape(100, 1000).T)
assert first.sum() == sum(range(100_000))
print("in place")
"""
    environment = {**os.environ, "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100
    )
    assert ran.stdout == "in place\n", ran.stderr
