"""docs/compatibility.md is right: every name on it is tried."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.one_path("which names there are does not depend on the way of tasks")


@pytest.fixture(scope="module")
def compatibility():
    spec = importlib.util.spec_from_file_location(
        "compatibility", ROOT / "scripts" / "compatibility.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_right(compatibility):
    _, wrong = compatibility.corrected(compatibility.PAGE.read_text())
    assert wrong == [], "scripts/compatibility.py --write corrects verdicts and counts"


def test_every_row_is_read(compatibility):
    """A row whose verdict is misspelled would else not be looked at."""
    text = compatibility.PAGE.read_text()
    body = text[text.index("\n## 1.") :]
    lines = [line for line in body.splitlines() if line.startswith("| ")]
    headings = [line for line in lines if line == "| name | here | remark |"]
    assert len(headings) == len(re.findall(r"^## \d+\.", body, re.M)) == 12
    assert len(lines) - len(headings) == len(list(compatibility.rows(text)))


def test_both_counts_are_of_the_same_names(compatibility):
    """A name that is added to the page was there before, or was not."""
    counts = {
        what: (int(before), int(now))
        for what, before, now in re.findall(
            r"^\| (\w+) \| (\d+) \| (\d+) \|$", compatibility.PAGE.read_text(), re.M
        )
    }
    names = counts.pop("names")
    assert sorted(counts) == sorted(compatibility.VERDICTS)
    assert names[0] == names[1]
    assert names == tuple(map(sum, zip(*counts.values())))


def test_no_name_stands_twice_in_a_table(compatibility):
    text = compatibility.PAGE.read_text()
    for section in re.split(r"^## ", text, flags=re.M):
        names = [name for _, name, _, _ in compatibility.rows(section)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "name, verdict, complaint",
    [
        ("ray.no_such_name", "yes", "no attribute"),
        ("ray.put", "no", "it is yes"),
        ("ray.tune", "yes", "it is refused"),
        ("ray.put", "differs", "does not say how"),
        ("f.options(no_such_option=)", "yes", "no option"),
        ("RAY_NO_SUCH_VARIABLE", "yes", "it is no"),
        ("ray.init(no_such_option=)", "yes", "does not know"),
        ("ray no-such-command", "yes", "no command"),
    ],
)
def test_a_wrong_row_is_found(compatibility, name, verdict, complaint):
    _, wrong = compatibility.corrected(f"| `{name}` | {verdict} | |\n")
    assert len(wrong) == 1 and complaint in wrong[0]


def test_a_wrong_count_is_found_and_corrected(compatibility):
    page = "| yes | 0 | 2 |\n| `ray.put` | yes | |\n"
    should, wrong = compatibility.corrected(page)
    assert wrong == ["there are 1 (yes), and the page says 2"]
    assert should == "| yes | 0 | 1 |\n| `ray.put` | yes | |\n"
