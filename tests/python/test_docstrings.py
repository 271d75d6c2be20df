"""Every public name has a docstring, with an example; docs/api.md is made of them."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import ray

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(ray.__file__).parent
pytestmark = pytest.mark.one_path("no task runs in it")

spec = importlib.util.spec_from_file_location("api", ROOT / "scripts" / "api.py")
api = importlib.util.module_from_spec(spec)
spec.loader.exec_module(api)


def _raised():
    """The words of the package, but for the module that defines the errors."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.name != "exceptions.py")
    return set(
        re.findall(r"\w+Error\b|\w+Exceeded|\w+Removed", "".join(map(Path.read_text, paths)))
    )


@pytest.mark.parametrize("module", api.MODULES)
def test_every_public_name_has_a_docstring(module):
    bare = []
    for name, thing in api.public(module):
        own = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
        if not own:
            bare.append(name)
    assert bare == []


# Data that functions give back, and nodes that other nodes make: nobody writes them.
GIVEN = {"DAGInputData", "DAGNode", "InputAttributeNode"}


@pytest.mark.parametrize("module", [name for name in api.MODULES if name != "ray.exceptions"])
def test_every_public_name_has_an_example(module):
    bare = {name for name, thing in api.public(module) if not api.example(thing.__doc__)}
    assert {name for name in bare if not name.endswith("State")} - GIVEN == set()


def test_every_error_that_is_raised_has_an_example():
    raised = _raised()
    assert "GetTimeoutError" in raised
    bare = {name for name, kind in api.public("ray.exceptions") if not api.example(kind.__doc__)}
    assert bare & raised == set()


@pytest.mark.parametrize("name", ["remote", "get", "init", "wait"])
def test_help_reads_well(name):
    text = inspect.getdoc(getattr(ray, name))
    assert len(text.splitlines()) >= 5 and max(map(len, text.splitlines())) <= 100
    assert f"ray.{name}(" in text or f"@ray.{name}" in text


def test_docs_api_is_up_to_date():
    should = api.page()
    assert api.PAGE.read_text() == should, "scripts/api.py --write"


def test_what_counts_as_an_example():
    assert api.example("Does it.\n\n    f(1)\n") == "f(1)"
    assert api.example("Does it.\n\nx = f(1)\nprint(x)") == "x = f(1)\nprint(x)"
    assert api.example("Does it.\n\n    >>> f(1)\n    2\n") == ">>> f(1)\n2"
    assert api.example("Does it.\n\nOnly words.") is None
    assert api.example("Does it.\n\nArgs:\n    x: f\n") is None
