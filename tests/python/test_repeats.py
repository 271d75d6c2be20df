"""Lines that several workers print alike: the first is printed, the others are counted."""

import re

import pytest
import support

from ray._private.repeats import Repeats


class Said:
    """What is printed of what is said, by a clock of the test's own."""

    def __init__(self, monkeypatch, **settings):
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        self.now = 100.0
        self.repeats = Repeats(lambda: self.now)

    def __call__(self, pid, line, name="f", stream="out"):
        return self.repeats.admits(stream, pid, f"({name} pid={pid}) ", name, line)


@pytest.fixture
def said(monkeypatch):
    return Said(monkeypatch)


def test_others_that_say_the_same_are_counted(said):
    assert said(1, "step 1 of 10")
    assert not said(2, "step 2 of 10")
    assert not said(3, "step 33 of 100")
    assert said.repeats.due() == []
    said.now += 5
    ((stream, text),) = said.repeats.due()
    assert stream == "out"
    assert text.startswith("(f pid=3) step 33 of 100 [repeated 2x across cluster] (Lines that")
    assert said.repeats.wait_ms() is None


def test_how_to_switch_it_off_is_said_once(said):
    for word in ("one", "two"):
        for pid in range(4):
            said(pid, word)
    said.now += 5
    first, second = (text for _, text in said.repeats.due())
    assert "RAY_DEDUP_LOGS=0" in first
    assert second == "(f pid=3) two [repeated 3x across cluster]\n"


def test_a_single_other_one_is_printed_as_it_is(said):
    said(1, "ready")
    said(2, "ready")
    said.now += 5
    assert said.repeats.due() == [("out", "(f pid=2) ready\n")]
    assert said(1, "ready")  # and nothing is known of it any more


def test_they_go_on_being_counted(said):
    for pid in (1, 2, 3):
        said(pid, "ready")
    said.now += 5
    said.repeats.due()
    assert not said(1, "ready")  # others say it too
    assert not said(2, "ready")
    assert 0 < said.repeats.wait_ms() <= 5001
    said.now += 5
    assert "[repeated 2x" in said.repeats.due()[0][1]
    said.now += 5
    assert said.repeats.due() == []
    assert said(2, "ready")


def test_one_process_alone_is_never_held_back(said):
    assert all(said(1, f"epoch {i}") for i in range(100))


@pytest.mark.parametrize("line", ["17", "3.5 %", "", "----", "[1, 2]"])
def test_values_are_never_held_back(said, line):
    assert said(1, line) and said(2, line)


def test_names_and_streams_are_kept_apart(said):
    assert said(1, "ready")
    assert said(2, "ready", name="g")
    assert said(3, "ready", stream="err")


def test_the_rest_comes_at_the_end(said):
    for pid in (1, 2, 3):
        said(pid, "ready", stream="err")
    ((stream, text),) = said.repeats.rest()
    assert stream == "err" and "[repeated 2x" in text
    assert said.repeats.rest() == []


def test_it_remembers_a_bounded_number_of_lines(said):
    letters = "".join(map(chr, range(ord("a"), ord("z") + 1)))
    for i in range(20_000):
        word = (
            letters[i % 26] + letters[i // 26 % 26] + letters[i // 676 % 26] + letters[i // 17576]
        )
        assert said(1, word)
        said.repeats.due()
    assert len(said.repeats._kinds) <= 10_000


def test_settings(monkeypatch):
    said = Said(monkeypatch, RAY_DEDUP_LOGS="0")
    assert said(1, "ready") and said(2, "ready")
    said = Said(
        monkeypatch,
        RAY_DEDUP_LOGS="1",
        RAY_DEDUP_LOGS_AGG_WINDOW_S="0.5",
        RAY_DEDUP_LOGS_ALLOW_REGEX="ERROR|WARN",
        RAY_DEDUP_LOGS_SKIP_REGEX="^debug",
    )
    assert said(1, "an ERROR") and said(2, "an ERROR")
    assert not said(1, "debug: this")
    assert said(1, "ready") and not said(2, "ready")
    said.now += 0.5
    assert len(said.repeats.due()) == 1


@pytest.mark.parametrize(
    "name, value",
    [("RAY_DEDUP_LOGS_AGG_WINDOW_S", "soon"), ("RAY_DEDUP_LOGS_SKIP_REGEX", "(")],
)
def test_settings_that_make_no_sense_are_told_by_init(folder, name, value):
    code = "import ray\nray.init(num_cpus=1)\n"
    result = support.run_driver(
        support.script(folder, code), env={**support.os.environ, name: value}
    )
    assert result.returncode != 0
    assert name in result.stderr.splitlines()[-1]


BODY = """
import os, time, ray
ray.init(num_cpus=1)
@ray.remote(num_cpus=0)
class Speaker:
    def speak(self, i):
        print("my number is", i)
        print(i * 11)
speakers = [Speaker.remote() for _ in range(4)]
ray.get([speaker.speak.remote(i) for i, speaker in enumerate(speakers)])
"""


def test_what_workers_print(folder):
    result = support.run_driver(support.script(folder, BODY))
    assert result.returncode == 0, result.stderr
    lines = re.sub(r"pid=\d+", "pid=N", result.stdout).splitlines()
    values = [f"(Speaker pid=N) {11 * i}" for i in range(4)]
    assert sorted(line for line in lines if "number" not in line) == sorted(values)
    first, last = (line for line in lines if "number" in line)
    assert re.fullmatch(r"\(Speaker pid=N\) my number is \d", first)
    assert re.match(r"\(Speaker pid=N\) my number is \d \[repeated 3x across cluster\] \(L", last)


def test_what_is_held_back_comes_while_nothing_else_does(folder):
    code = BODY + "time.sleep(3)\nprint('the end')\n"
    result = support.run_driver(
        support.script(folder, code),
        env={**support.os.environ, "RAY_DEDUP_LOGS_AGG_WINDOW_S": "0.5"},
    )
    assert result.stdout.index("[repeated 3x") < result.stdout.index("the end")


def test_each_line_with_the_count_switched_off(folder):
    result = support.run_driver(
        support.script(folder, BODY), env={**support.os.environ, "RAY_DEDUP_LOGS": "0"}
    )
    assert result.stdout.count("my number is") == 4
