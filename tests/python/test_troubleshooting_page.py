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


def test_the_words_of_messages_are_those_of_the_sources():
    """Each quoted message of ours stands in the package, but for the parts that stand for values."""
    folders = (Path(ray.__file__).parent.rglob("*.py"), (PAGE.parents[1] / "src").rglob("*.c"))
    sources = "".join(path.read_text() for paths in folders for path in paths)
    sources = re.sub(r'"\s*\n\s*f?"', "", sources)  # strings that go on in the next line
    told = re.findall(r'^\*\*"(.+?)"\*\*([^:]*):', PAGE.read_text(), re.M | re.S)
    assert len(told) >= 10
    values = r"\.\.\.|'x'|argument 0.*|Ray 2\.x|a remote function(?=;)|num_cpus|N MiB, K"
    for message, whose in told:
        if "numpy" not in whose:
            for part in re.split(values, " ".join(message.split())):
                assert part.strip() in sources, message
