"""docs/environment.md has every variable that is read, and no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.one_path("no task runs in it")

# What a variable looks like where it is read, or where a constant gives it a name.
_READ = re.compile(
    r"""getenv\("(\w+)"\) | environb?(?:\.get\(|\.pop\(|\[)"(\w+)" | "((?:RAY|MOBULA)_\w+)"
    | "(\w+_NUM_THREADS)" | "(MOBULA_\w+)=""",
    re.X,
)
# Not read: a name that libraries look for, and what is set for the programs of an environment.
_NOT_READ = {"RAY_NAMESPACE", "VIRTUAL_ENV"}


def _read():
    found = set()
    for folder in ("src", "python/ray"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".c", ".h", ".py"):
                for groups in _READ.findall(path.read_text()):
                    found.add(next(filter(None, groups)))
    return found - _NOT_READ


def _told():
    page = (ROOT / "docs" / "environment.md").read_text()
    return re.findall(r"^\| `(\w+)` \|", page, re.M)


def test_the_page_has_what_is_read():
    told = _told()
    assert len(told) == len(set(told))
    assert sorted(told) == sorted(_read())
