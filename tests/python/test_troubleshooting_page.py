"""docs/troubleshooting.md has every error of ray.exceptions, and no other."""

import re
from pathlib import Path

import pytest

import ray.exceptions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
pytestmark = pytest.mark.one_path("no task runs in it")


def test_the_page_has_every_error():
    told = re.findall(r"^- \*\*(\w+)\*\*: ", PAGE.read_text(), re.M)
    assert len(told) == len(set(told))
    assert sorted(told) == sorted(ray.exceptions.__all__)
