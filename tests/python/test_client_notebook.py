"""A Jupyter notebook, executed by nbconvert in a kernel of its own."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("nbconvert")
pytest.importorskip("ipykernel")

import nbformat
import support

CELLS = [
    """import ray
ray.init(num_cpus=2)""",
    """@ray.remote
def square(x):
    return x * x

@ray.remote
class Counter:
    def __init__(self):
        self.n = 0
    def add(self, k):
        self.n += k
        return self.n""",
    "ray.get([square.remote(i) for i in range(5)])",
    """counter = Counter.remote()
ray.get([counter.add.remote(2) for _ in range(3)])""",
    """# a function that is defined anew, as one does in a notebook
@ray.remote
def square(x):
    return -x * x

ray.get(square.remote(3))""",
    """ref = square.remote(4)
await ref""",
    """import time

@ray.remote
def say():
    print("a word from a worker")

ray.get(say.remote())
time.sleep(2)""",
    """@ray.remote
def divide(a, b):
    return a / b

try:
    ray.get(divide.remote(1, 0))
except ZeroDivisionError as error:
    print(type(error).__mro__[1].__name__, "division by zero" in str(error))""",
    """import pandas as pd
frame = pd.DataFrame({"a": range(100_000), "b": 1.5})
float(ray.get(ray.remote(lambda f: f.a.sum() * f.b.mean()).remote(frame)))""",
    """ray.shutdown()
ray.is_initialized()""",
]


@pytest.fixture
def notebook(folder):
    """Executes the notebook of these cells and returns it with its outputs."""

    def execute(cells, *options):
        path = os.path.join(folder, "program.ipynb")
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        nbformat.write(made, path)
        environment = {**os.environ, "JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": folder}
        done = subprocess.run(
            [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace"]
            + [*options, path],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        support.wait_until(lambda: not support.processes())
        return [cell.outputs for cell in nbformat.read(path, as_version=4).cells]

    return execute


def values(outputs):
    return [o.data["text/plain"] for o in outputs if o.output_type == "execute_result"]


def printed(outputs):
    return "".join(o.text for o in outputs if o.output_type == "stream")


def test_a_notebook(notebook):
    found = notebook(CELLS)
    (context,) = found[0][-1:]
    assert "Python version" in context.data["text/html"]
    assert values(found[2]) == ["[0, 1, 4, 9, 16]"]
    assert values(found[3]) == ["[2, 4, 6]"]
    assert values(found[4]) == ["-9"] and values(found[5]) == ["-16"]
    assert "a word from a worker" in printed(found[6]) and "(say pid=" in printed(found[6])
    assert "True" in printed(found[7])
    assert values(found[8]) == [str(float(sum(range(100_000)) * 1.5))]
    assert values(found[9]) == ["False"]


def test_an_error_in_a_task_is_shown_in_the_cell(notebook):
    found = notebook(
        [
            "import ray",
            "def fail():\n    raise KeyError('lost')\nray.get(ray.remote(fail).remote())",
            "ray.get(ray.remote(lambda: 5).remote())",
        ],
        "--allow-errors",
    )
    (error,) = [o for o in found[1] if o.output_type == "error"]
    assert "KeyError" in error.ename and "lost" in "\n".join(error.traceback)
    assert values(found[2]) == ["5"]


def test_a_kernel_that_ends_without_a_shutdown_leaves_nothing(notebook):
    found = notebook(["import ray", "ray.get(ray.remote(lambda: 1).remote())"])
    assert values(found[1]) == ["1"]
    assert support.processes() == []
