"""What workers print reaches the driver: with its source, in order, and before the end."""

import os
import pty
import re
import termios
import time

import pytest
import support


@pytest.fixture(autouse=True)
def every_line(monkeypatch):
    """Also those that are alike; test_repeats.py has what becomes of them otherwise."""
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")


def lines(folder, body, init="num_cpus=2", stream="stdout", **options):
    """Runs a driver; gives the lines of its output, and checks that nothing else went wrong."""
    code = f"import ray, os, sys, time\nray.init({init})\n{body}\n"
    result = support.run_driver(support.script(folder, code), **options)
    assert result.returncode == 0, result.stderr
    return getattr(result, stream).splitlines()


class Live:
    """A driver whose output is looked at while it runs, and whose task waits for the test: `step()`
    in the task goes on at each `go()` here.
    """

    def __init__(self, folder, body, terminal=False):
        self.folder, self.steps, self.text = folder, 0, ""
        code = f"""
import os, subprocess, sys, time, ray
ray.init(num_cpus=2)
def step(i):
    while not os.path.exists(os.path.join({folder!r}, f"step-{{i}}")):
        time.sleep(0.01)
{body}
"""
        self.read_end, write_end = pty.openpty() if terminal else os.pipe()
        if terminal:
            attributes = termios.tcgetattr(write_end)
            attributes[1] &= ~termios.OPOST  # what is written is what is read
            termios.tcsetattr(write_end, termios.TCSANOW, attributes)
        os.set_blocking(self.read_end, False)
        self.driver = support.start_driver(
            support.script(folder, code), stdout=write_end, stderr=write_end
        )
        os.close(write_end)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.driver.kill()
        self.driver.wait()
        os.close(self.read_end)

    def go(self):
        support.touch(os.path.join(self.folder, f"step-{self.steps}"))
        self.steps += 1

    def shows(self, text):
        """Whether the output becomes this, as it is or with N for each process's id."""
        return support.wait_until(lambda: self.read() == text) or self.text

    def read(self):
        try:
            self.text += os.read(self.read_end, 65536).decode()
        except (BlockingIOError, OSError):  # nothing yet, or at its end (EIO of a terminal)
            pass
        self.text = re.sub(r"pid=\d+\)", "pid=N)", self.text)
        return self.text


TASK = "@ray.remote\ndef speak(*words):\n    print(*words)\n    return os.getpid()\n"


def test_a_line_has_its_tasks_name_and_process(folder):
    body = TASK + "pid = ray.get(speak.remote('hello', 'world'))\nray.shutdown()\nprint(pid)"
    line, pid = lines(folder, body)
    assert line == f"(speak pid={pid}) hello world"


def test_without_a_shutdown_at_the_end(folder):
    (line,) = lines(folder, TASK + "ray.get(speak.remote('last words'))")
    assert re.fullmatch(r"\(speak pid=\d+\) last words", line)


def test_lines_keep_their_order(folder):
    body = "@ray.remote\ndef count():\n    for i in range(3000):\n        print(i)\nray.get(count.remote())"
    found = lines(folder, body)
    assert [line.split(") ")[1] for line in found] == [str(i) for i in range(3000)]


def test_everything_before_a_result_is_printed_before_shutdown_returns(folder):
    body = (
        "@ray.remote\ndef say(i):\n    print('line', i)\n    return i\n"
        "ray.get([say.remote(i) for i in range(500)])\nray.shutdown()\nos.write(1, "
        "b'after\\n')\nos._exit(0)"
    )
    found = lines(folder, body, "num_cpus=4")
    assert found[-1] == "after"
    assert sorted(int(line.split()[-1]) for line in found[:-1]) == list(range(500))


def test_several_lines_in_one_print_each_have_the_prefix(folder):
    found = lines(folder, TASK + "ray.get(speak.remote('a\\nb\\n\\nc'))")
    assert [re.sub(r"pid=\d+", "pid=N", line) for line in found] == [
        "(speak pid=N) a",
        "(speak pid=N) b",
        "(speak pid=N) ",
        "(speak pid=N) c",
    ]


def test_empty_lines_are_lines(folder):
    body = (
        TASK
        + "for _ in range(20):\n    ray.get([speak.remote('a\\n'), speak.remote(), speak.remote('\\nb')])"
    )
    found = [line.partition(")")[2].strip() for line in lines(folder, body, "num_cpus=1")]
    assert found == ["a", "", "", "", "b"] * 20


def test_text_without_an_end_of_line(folder):
    task = "@ray.remote\ndef part():\n    sys.stdout.write('no newline')\n"
    body = task + "ray.get(part.remote())\nray.shutdown()"
    (line,) = lines(folder, body)
    assert line.endswith(") no newline")


def test_pieces_make_one_line(folder):
    body = """
@ray.remote
def part():
    for i in range(5):
        print(i, end=',', flush=True)
    print('end')
ray.get(part.remote())
"""
    (line,) = lines(folder, body)
    assert line.endswith(") 0,1,2,3,4,end")


def test_standard_error_goes_to_standard_error(folder):
    body = """
@ray.remote
def complain():
    print('bad', file=sys.stderr)
    os.write(2, b'raw\\n')
ray.get(complain.remote())
"""
    found = lines(folder, body, stream="stderr")
    assert [line.split(") ")[1] for line in found] == ["bad", "raw"]
    assert all(line.startswith("(complain pid=") for line in found)


def names_and_texts(found):
    return [re.fullmatch(r"\((?:(.*) )?pid=\d+\) (.*)", line).groups() for line in found]


def test_what_subprocesses_and_c_code_write(folder):
    """One worker runs all of them: each text has the name of the task that runs, whoever announced
    himself before.
    """
    body = """
@ray.remote(num_cpus=2)
def shell(i):
    os.system('echo from the shell')
    os.write(1, b'raw\\n')
    step(i)
@ray.remote(num_cpus=2)
def other(i, unused):
    subprocess.run(["echo", "from a subprocess"])
    step(i)
@ray.remote(num_cpus=2)
def talker(i):
    print("by Python")
    os.system('printf half')
    step(i)
ray.get(shell.remote(0))
ray.get(talker.remote(1))
ray.get(other.remote(2, b'x'))
ray.get(other.options(name='large').remote(3, b'x' * 5000))
ray.get(talker.remote(4))
ray.get(shell.remote(5))
"""
    shell = "(shell pid=N) from the shell\n(shell pid=N) raw\n"
    talker = "(talker pid=N) by Python\n(talker pid=N) half"
    texts = [
        shell,
        talker,
        "\n(other pid=N) from a subprocess\n",
        "(large pid=N) from a subprocess\n",
        talker,
        "\n" + shell,
    ]
    with Live(folder, body) as live:
        shown = ""
        for text in texts:
            shown += text
            assert live.shows(shown) is True
            live.go()
        assert live.driver.wait(40) == 0


@pytest.mark.parametrize("options", ["", "max_concurrency=2"])
def test_what_subprocesses_of_actors_write(folder, options):
    body = f"""
@ray.remote({options or "num_cpus=0"})
class Plain:
    def __init__(self):
        os.system('echo made')
    def speak(self):
        os.system('echo spoke')
@ray.remote({options or "num_cpus=0"})
class Named:
    def __repr__(self):
        return 'my own name'
    def speak(self):
        os.system('echo spoke')
plain, named = Plain.remote(), Named.remote()
ray.get(plain.speak.remote())
ray.get(named.speak.remote())
"""
    expected = [("Plain", "made"), ("Plain", "spoke"), ("my own name", "spoke")]
    assert names_and_texts(lines(folder, body)) == expected


def test_actors_have_their_class_or_method_as_name(folder):
    body = (
        "@ray.remote\nclass Parrot:\n    def __init__(self):\n        print('made')\n"
        "    def speak(self):\n        print('spoke')\nray.get(Parrot.remote().speak.remote())"
    )
    found = lines(folder, body)
    assert [line.split(") ")[1] for line in found] == ["made", "spoke"]
    assert all(line.startswith("(Parrot") for line in found)


def test_an_actors_own_repr_is_its_name(folder):
    body = (
        "@ray.remote\nclass Parrot:\n    def __init__(self, name):\n        self.name = name\n"
        "    def __repr__(self):\n        return f'Parrot {self.name}' if self.name else 1 / 0\n"
        "    def speak(self):\n        print('spoke')\n"
        "for name in ('é' * 200, 'two\\nlines', ''):\n    "
        "ray.get(Parrot.remote(name).speak.remote())"
    )
    found = [line.partition(" pid=")[0] for line in lines(folder, body)]
    assert found == ["(Parrot " + "é" * 124, "(Parrot two lines", "(Parrot"]


def test_the_name_option_is_the_name(folder):
    (line,) = lines(folder, TASK + "ray.get(speak.options(name='special').remote('x'))")
    assert line.startswith("(special pid=")


def test_text_beyond_ascii_and_broken_text(folder):
    body = (
        "@ray.remote\ndef odd():\n    print('é 日本 🐟')\n    print('\\ud800')\n    os.write(1, "
        "b'\\xff\\xfe\\n')\n"
        "    print('\\x01fake')\n    print('fine')\nray.get(odd.remote())"
    )
    found = [line.partition(") ")[2] for line in lines(folder, body)]
    assert found[0] == "é 日本 🐟" and found[-1] == "fine" and len(found) == 5


@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_a_very_long_line_is_one(folder, size):
    body = f"@ray.remote\ndef long():\n    print('x' * {size} + 'end')\nray.get(long.remote())"
    (line,) = lines(folder, body)
    assert line.partition(") ")[2] == "x" * size + "end"


def test_very_long_lines_of_two_workers_are_not_mixed(folder):
    body = """
@ray.remote
def long(c):
    while len(os.listdir(folder)) < 2:
        open(os.path.join(folder, c), "w").close()
    for _ in range(3):
        print(c * 3_000_000)
ray.get([long.remote("a"), long.remote("b")])
"""
    meeting = os.path.join(folder, "meeting")
    os.mkdir(meeting)
    found = lines(folder, f"folder = {meeting!r}" + body)
    texts = [line.partition(") ")[2] for line in found]
    assert sorted(texts) == ["a" * 3_000_000] * 3 + ["b" * 3_000_000] * 3


@pytest.mark.parametrize("shift", range(4))
def test_a_very_long_line_keeps_its_characters(folder, shift):
    """Wherever it is cut on its way."""
    text = "x" * shift + "é日🐟" * 20_000
    body = f"@ray.remote\ndef long():\n    print({text!r})\nray.get(long.remote())"
    (line,) = lines(folder, body)
    assert line.partition(") ")[2] == text


def test_what_has_no_newline_yet_is_shown(folder):
    body = """
@ray.remote
def dots():
    for i in range(3):
        print(".", end="", flush=True)
        step(i)
    print("done")
ray.get(dots.remote())
"""
    with Live(folder, body) as live:
        for dots in (".", "..", "..."):
            assert live.shows(f"(dots pid=N) {dots}") is True
            live.go()
        assert live.shows("(dots pid=N) ...done\n") is True


BAR = """
@ray.remote
def bar():
    for i in range(2):
        print(f"\\r {i * 50} %", end="", file=sys.stderr, flush=True)
        step(i)
    print("\\r 100 %", file=sys.stderr)
@ray.remote
def speak():
    print("hello")
ref = bar.remote()
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_is_drawn_over_itself(folder, terminal):
    with Live(folder, BAR + "ray.get(ref)", terminal) as live:
        shown = "\r(bar pid=N)  0 %"
        assert live.shows(shown) is True
        live.go()
        shown += "\r(bar pid=N)  50 %"
        assert live.shows(shown) is True
        live.go()
        assert live.shows(shown + "\r(bar pid=N)  100 %\n") is True


def test_a_line_within_an_open_one(folder):
    """On a terminal, where all output is one: the open line is ended, and goes on in another."""
    body = BAR + "step(2)\nray.get(speak.remote())\nray.get(ref)"
    with Live(folder, body, terminal=True) as live:
        shown = "\r(bar pid=N)  0 %"
        assert live.shows(shown) is True
        support.touch(os.path.join(folder, "step-2"))
        shown += "\n(speak pid=N) hello\n"
        assert live.shows(shown) is True
        live.go()
        shown += "\r(bar pid=N)  50 %"
        assert live.shows(shown) is True
        live.go()
        assert live.shows(shown + "\r(bar pid=N)  100 %\n") is True


def test_two_open_lines(folder):
    body = """
@ray.remote
def part(c, i):
    step(i)
    print(c, end="", flush=True)
    step(i + 2)
    print(flush=True)
ray.get([part.remote("a", 0), part.remote("b", 1)])
"""
    with Live(folder, body) as live:
        live.go()
        assert live.shows("(part pid=N) a") is True
        live.go()
        shown = "(part pid=N) a\n(part pid=N) b"
        assert live.shows(shown) is True
        live.go()  # the end of the first is not an empty line
        live.go()
        assert live.shows(shown + "\n") is True


def test_an_open_line_is_ended_with_the_session(folder):
    body = """
@ray.remote
def part():
    print("open", end="", flush=True)
    step(0)
ray.get(part.remote())
ray.shutdown()
print("after")
"""
    with Live(folder, body) as live:
        assert live.shows("(part pid=N) open") is True
        live.go()
        assert live.shows("(part pid=N) open\nafter\n") is True


def test_what_the_drivers_output_has_no_characters_for(folder):
    body = TASK + "ray.get(speak.remote('é 日本'))\nray.get(speak.remote('plain'))"
    found = lines(folder, body, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert [line.partition(") ")[2] for line in found] == ["\\xe9 \\u65e5\\u672c", "plain"]


def test_names_of_more_than_one_line_and_very_long_ones(folder):
    body = TASK + (
        "ray.get(speak.options(name='two\\nlines').remote('a'))\n"
        "ray.get(speak.options(name='日' * 200).remote('b'))\n"
        "actor = ray.remote(type('é' * 40, (), {'x' + 'é' * 40: lambda self: 1})).remote()\n"
        "ray.get(getattr(actor, 'x' + 'é' * 40).remote())\n"
        "names = {event['name'] for event in ray.timeline()}\n"
        "ray.kill(actor)\n"
        "try:\n    ray.get(getattr(actor, 'x' + 'é' * 40).remote())\n"
        "except ray.exceptions.ActorDiedError as error:\n"
        "    names.add(str(error).split('\\n')[-1][:20])\n"
        "ray.shutdown()\nprint(names)"
    )
    first, second, names = lines(folder, body)
    assert re.fullmatch(r"\(two lines pid=\d+\) a", first)
    assert re.fullmatch(r"\(日{85} pid=\d+\) b", second)
    assert "'日日日日日日日日日日日日日日日'" in names and "'ééééééééééé.xéééééééééé'" in names
    assert "The actor éééééééééé" in names


def test_a_workers_streams_are_like_those_of_any_program(folder):
    task = "@ray.remote\ndef ask():\n    return sys.stdout.mode, sys.stderr.mode\n"
    body = task + "print(*ray.get(ask.remote()))"
    assert lines(folder, body) == ["w w"]


def test_log_to_driver_off(folder):
    assert (
        lines(folder, TASK + "ray.get(speak.remote('hush'))\nray.shutdown()", "log_to_driver=False")
        == []
    )


def test_a_killed_worker_prints_no_traceback(folder):
    body = """
@ray.remote
class Victim:
    def pid(self): return os.getpid()
    def run(self): time.sleep(100)
victim = Victim.remote()
ray.get(victim.pid.remote())
ref = victim.run.remote()
ray.kill(victim)
try:
    ray.get(ref, timeout=30)
except ray.exceptions.RayActorError:
    print("dead")
@ray.remote(max_retries=0)
def killed():
    os.kill(os.getpid(), 9)
try:
    ray.get(killed.remote(), timeout=30)
except ray.exceptions.WorkerCrashedError:
    print("crashed")
@ray.remote
def long(): time.sleep(100)
long.remote()
time.sleep(0.2)
ray.shutdown()
"""
    code = f"import ray, os, sys, time\nray.init(num_cpus=2)\n{body}\n"
    result = support.run_driver(support.script(folder, code))
    assert result.stdout.split() == ["dead", "crashed"]
    assert "Traceback" not in result.stderr


def test_an_exception_in_a_task_prints_nothing_by_itself(folder):
    body = """
@ray.remote
def fail():
    raise ValueError("quiet")
try:
    ray.get(fail.remote())
except ValueError:
    pass
"""
    code = f"import ray\nray.init(num_cpus=1)\n{body}\n"
    result = support.run_driver(support.script(folder, code))
    assert (result.stdout, result.stderr) == ("", "")


def test_what_was_printed_before_a_crash(folder):
    body = """
@ray.remote(max_retries=0)
def crash():
    print("famous last words")
    os._exit(1)
try:
    ray.get(crash.remote(), timeout=30)
except ray.exceptions.WorkerCrashedError:
    pass
ray.shutdown()
"""
    (line,) = lines(folder, body)
    assert line.endswith(") famous last words")


def test_a_driver_without_output_goes_on(folder):
    code = (
        "import ray, os, sys\nsys.stdout.close(); os.close(1)\nray.init(num_cpus=1)\n"
        + "@ray.remote\ndef speak():\n    print('to nobody')\n    return 5\n"
        + "assert ray.get(speak.remote()) == 5\nray.shutdown()\n"
        + "sys.stderr.write('fine')\nsys.stderr.flush()\nos._exit(0)"
    )
    result = support.run_driver(support.script(folder, code))
    assert result.stderr.endswith("fine"), result.stderr


def test_a_slow_reader_does_not_stop_the_tasks(folder):
    """The driver's output is a pipe that nobody reads until the end."""
    code = (
        "import ray, sys\nray.init(num_cpus=1)\n@ray.remote\ndef chatter():\n    for i in "
        "range(20000):\n"
        "        print('x' * 50)\n    return "
        "7\nsys.stderr.write(str(ray.get(chatter.remote())))\nsys.stderr.flush()\n"
    )
    driver = support.start_driver(support.script(folder, code))
    try:
        assert driver.stderr.read(1) == "7"
        out, _ = driver.communicate(timeout=40)
        assert out.count("x" * 50) == 20000
    finally:
        driver.kill()
        driver.communicate()


def test_shutdown_waits_for_a_reader_that_takes_its_time(folder):
    """Longer than it waits for a daemon without a word; what was printed before a result arrives
    whole.
    """
    code = """
import ray, sys
ray.init(num_cpus=1)
ray._private.printing.Printer._PATIENCE = 0.2
@ray.remote
def chatter():
    for i in range(20000):
        print('x' * 50)
ray.get(chatter.remote())
sys.stderr.write('7')
sys.stderr.flush()
ray.shutdown()
"""
    driver = support.start_driver(support.script(folder, code))
    try:
        assert driver.stderr.read(1) == "7"
        time.sleep(1.5)
        assert driver.communicate(timeout=40)[0].count("x" * 50) == 20000
    finally:
        driver.kill()
        driver.communicate()


def test_an_output_of_the_users_that_fails_stops_no_later_line(folder):
    body = (
        TASK
        + """
class Fussy:
    encoding, real, seen = "utf-8", sys.stdout, []
    def write(self, text):
        self.seen.append(text)
        if "bad" in text: raise RuntimeError("not with me")
        return self.real.write(text)
    def flush(self): self.real.flush()
sys.stdout = Fussy()
for word in ("one", "bad", "two"):
    ray.get(speak.remote(word))
    while not any(word in text for text in Fussy.seen):  # else they may come in one piece
        time.sleep(0.01)
ray.shutdown()
"""
    )
    assert [line.split()[-1] for line in lines(folder, body)] == ["one", "two"]


@pytest.mark.parametrize("word", ["input()", "sys.stdin.read()"])
def test_reading_from_the_terminal_in_a_task(folder, word):
    body = f"""
@ray.remote
def read():
    try:
        return repr({word})
    except EOFError:
        return 'end'
print(ray.get(read.remote(), timeout=30))
"""
    assert lines(folder, body)[0] in ("end", "''")


def test_threads_that_print_first_at_the_same_moment(folder):
    """None of their text goes ahead of the name: here every first write is held up until another
    one has arrived.
    """
    body = """
import io, threading
@ray.remote(max_concurrency=4)
class Crowd:
    def __init__(self):
        self.barrier = threading.Barrier(4)
        self.written, self.arrived, first = [], threading.Event(), threading.Lock()
        class Raw(io.RawIOBase):
            def writable(self):
                return True
            def write(raw, data):
                data = bytes(data)
                if first.acquire(blocking=False):
                    self.arrived.wait(30)
                self.written.append(data)
                self.arrived.set()
                return len(data)
        self.stream = type(sys.stdout)(Raw(), encoding="utf-8", newline="\\n", write_through=True)
    def speak(self, i):
        self.barrier.wait(30)
        print("shown", i)
        self.stream.write(f"{i}\\n")
    def found(self):
        return self.written
for _ in range(5):
    crowd = Crowd.remote()
    ray.get([crowd.speak.remote(i) for i in range(4)])
    written = ray.get(crowd.found.remote())
    assert written[0].startswith(b"\\x01Crowd\\n"), written
    assert sorted(text.split(b"\\n")[-2] for text in written) == [b"0", b"1", b"2", b"3"], written
"""
    found = lines(folder, body)
    # A line and its end are two writes, so two threads' may share a line; but each line has the
    # name.
    assert "".join(found).count("shown") == 20
    assert [line for line in found if not re.match(r"\(Crowd pid=\d+\) ", line)] == []


def test_what_other_nodes_print_says_where(capsys):
    from ray._private import printing, repeats

    lines = printing.Lines(repeats.Repeats())
    lines.show("out", 7, "10.0.0.2", "work", "one", False)
    lines.show("out", 7, "", "work", "two", False)
    lines.show("err", 7, "10.0.0.2", "", "three", False)
    lines.show("warn", 0, "10.0.0.2", "", "four", False)
    lines.show("out", 7, "10.0.0.2", "work", "fi", True)
    lines.show("out", 7, "10.0.0.3", "work", "another's", False)  # of the same pid
    lines.show("out", 7, "10.0.0.2", "work", "ve", False)
    lines.end()
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "(work pid=7, ip=10.0.0.2) one",
        "(work pid=7) two",
        "(work pid=7, ip=10.0.0.2) fi",
        "(work pid=7, ip=10.0.0.3) another's",
        "(work pid=7, ip=10.0.0.2) ve",
    ]
    assert said.err.splitlines() == [
        "(pid=7, ip=10.0.0.2) three",
        "(raylet, ip=10.0.0.2) four",
    ]
