"""Looks whether docs/compatibility.md is right: tries every name on it against the `ray` that this
Python imports. `--write` corrects the verdicts and the counts; the remarks are for people to write.

    .venv/bin/python scripts/compatibility.py            # tells what is wrong, if anything
    .venv/bin/python scripts/compatibility.py --write
    .venv/bin/python scripts/compatibility.py --count    # what this `ray` comes to, whatever the page says

How a name is tried depends on its form:

    `ray.init(x=)`           a session is started with it
    `f.options(x=)`          and Class.options, method.options: the option is given
    `context.x`              asked for in an actor's method, and called
    `ray list`               the command line is asked for its help
    `RAY_x`                  the sources read it, or not
    `ray.a.b`                imported and looked up
    anything else            a small program of _PROGRAMS
"""

import argparse
import contextlib
import importlib
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
VERDICTS = ("yes", "differs", "no", "refused")
_ROW = re.compile(r"^\| (`.+`) \| (yes|differs|no|refused) \| (.*?) ?\|$")
_COUNT = re.compile(r"^\| (yes|differs|no|refused|names) \| (\d+) \| (\d+) \|$")

# Values that mean something else than leaving the option out. What is not here is given "x".
_INIT = {
    "address": "local",
    "num_cpus": 2,
    "num_gpus": 1,
    "resources": {"a": 1},
    "object_store_memory": 80 << 20,
    "ignore_reinit_error": True,
    "include_dashboard": True,
    "include_webui": False,
    "dashboard_port": 8265,
    "runtime_env": {"env_vars": {"A": "b"}},
    "logging_level": "INFO",
    "log_to_driver": False,
    "labels": {"a": "b"},
    "local_mode": True,
    "_memory": 1 << 30,
    "_temp_dir": "/tmp",
    "object_spilling_directory": "/tmp",
    "_system_config": {"a": 1},
}
_OPTIONS = {
    "num_cpus": 2,
    "num_gpus": 1,
    "resources": {"a": 1},
    "memory": 1 << 20,
    "num_returns": 2,
    "num_return_vals": 2,
    "max_retries": 1,
    "retry_exceptions": True,
    "max_calls": 1,
    "runtime_env": {"env_vars": {"A": "b"}},
    "scheduling_strategy": "SPREAD",
    "label_selector": {"a": "b"},
    "fallback_strategy": [{"label_selector": {"a": "b"}}],
    "lifetime": "detached",
    "get_if_exists": True,
    "max_restarts": 1,
    "max_task_retries": 1,
    "max_concurrency": 2,
    "concurrency_groups": {"a": 1},
    "max_pending_calls": 1,
    "enable_task_events": False,
    "priority": 1,
    "allow_out_of_order_execution": True,
    "_generator_backpressure_num_objects": 1,
}


class Wrong(Exception):
    """A name that is neither there nor refused in words."""


def rows(text: str):
    """(line number, name, verdict, remark) of each name of the page."""
    for number, line in enumerate(text.splitlines()):
        found = _ROW.match(line)
        if found:
            yield number, found[1].strip("`"), found[2], found[3]


def probe(name: str, sources: Path) -> str:
    """What there is to say about a name: "there", "no" or "refused"."""
    try:
        _try(name, sources)
        return "there"
    except (AttributeError, ImportError, NotImplementedError) as error:
        if "not in Mobula" not in str(error):
            raise Wrong(f"{name}: {type(error).__name__}: {error}") from error
        return "refused" if re.search("is not in Mobula:", str(error)) else "no"


def _try(name, sources):
    option = re.fullmatch(r"(ray\.init|[\w.]+\.options)\((\w+)=(.*)\)", name)
    if option and option[1] == "ray.init":
        _try_init(option[2])
    elif option:
        _try_option(*option.groups())
    elif name in _PROGRAMS:
        _start()
        _PROGRAMS[name]()
    elif name.startswith("context."):
        _try_context(name.removeprefix("context.").removesuffix("()"))
    elif name.startswith("ray "):
        _try_command(*name.split()[1:])
    elif re.fullmatch(r"RAY_\w+", name):
        _try_variable(name, sources)
    else:
        _look_up(name)


def _start(**options):
    """A session with these options; without, one that is there will do."""
    import ray

    if options or not ray.is_initialized():
        ray.shutdown()
        with contextlib.redirect_stderr(io.StringIO()):
            ray.init(**{"address": "local", "num_cpus": 2, **options})


def _end():
    import ray

    with contextlib.redirect_stderr(io.StringIO()):
        ray.shutdown()


def _try_init(name):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _start(**{name: _INIT.get(name, "x")})
    _end()


def _try_option(owner, name, value):
    import ray

    @ray.remote
    def f():
        pass

    @ray.remote
    class Class:
        def method(self):
            pass

    given = {name: eval(value) if value else _OPTIONS.get(name, "x")}
    if owner == "f.options":
        f.options(**given)
    elif owner == "Class.options":
        Class.options(**given)
    else:
        ray.method(**given)


def _try_context(name):
    import ray

    _start()

    @ray.remote
    class Asks:
        def ask(self, name):
            found = getattr(ray.get_runtime_context(), name)
            if callable(found) and name != "worker":
                found()

    try:
        ray.get(Asks.remote().ask.remote(name))
    except (AttributeError, NotImplementedError) as error:
        raise error.cause from None


def _try_command(command, *options):
    from ray.scripts.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([command, *[word for word in options if word[0] != "-"], "--help"])
        except SystemExit:
            pass
    if err.getvalue():
        raise NotImplementedError(err.getvalue())
    for option in options:
        if option[0] == "-" and option not in out.getvalue():
            raise NotImplementedError(f"{option} is not in Mobula yet")


def _try_variable(name, sources):
    for folder in ("src", "python"):
        for path in (sources / folder).rglob("*.[cp]*"):
            if path.suffix in (".c", ".py") and f'"{name}"' in path.read_text():
                return
    raise NotImplementedError(f"{name} is not in Mobula yet: nothing reads it")


def _look_up(name):
    """The longest part that can be imported, then its attributes."""
    words = name.split(".")
    found, count = None, 0
    for count in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:count]))
            break
        except ModuleNotFoundError as error:
            if "not in Mobula" in str(error):
                raise
    for word in words[count:]:
        found = getattr(found, word)


def _list_of_refs():
    import ray

    assert ray.get([ray.put(1), ray.put(2)]) == [1, 2]


def _timeout():
    import ray

    @ray.remote
    def sleep():
        import time

        time.sleep(60)

    running = sleep.remote()
    try:
        ray.get(running, timeout=0.01)
        raise Wrong("no timeout")
    except ray.exceptions.GetTimeoutError:
        pass
    assert ray.wait([running], num_returns=1, timeout=0.01, fetch_local=True) == ([], [running])
    ray.cancel(running, force=True, recursive=True)


def _awaited():
    import asyncio

    import ray

    async def value():
        return await ray.put(3)

    assert asyncio.run(value()) == 3


def _equal():
    import ray

    one = ray.put(1)
    (same,) = ray.get(ray.put([one]))
    assert same is not one and same == one and len({same, one}) == 1 and one != ray.put(1)


def _starts_by_itself():
    import ray

    ray.shutdown()
    assert ray.get(ray.put(1)) == 1
    ray.shutdown()


def _without_arguments():
    import ray

    @ray.remote
    def one():
        return 1

    @ray.remote(num_cpus=1)
    def two():
        return 2

    assert ray.get([one.remote(), two.remote()]) == [1, 2]


def _actor(kind="plain"):
    import ray

    if kind == "async":

        class Counter:
            async def add(self, n):
                return n + 1
    else:

        class Counter:
            def add(self, n):
                return n + 1

    made = ray.remote(Counter)
    if kind == "threads":
        made = made.options(max_concurrency=2)
    counter = made.remote()

    @ray.remote
    def use(counter):
        return ray.get(counter.add.remote(1))

    assert ray.get(use.remote(counter)) == 2


def _node_fields():
    import ray

    (node,) = ray.nodes()
    assert node["NodeID"] and node["Resources"]


def _head():
    import ray

    assert ray.cluster_resources()["node:__internal_head__"] == 1


def _also_the_cause():
    import ray

    @ray.remote
    def fails():
        raise KeyError("x")

    try:
        ray.get(fails.remote())
    except KeyError as error:
        assert isinstance(error, ray.exceptions.RayTaskError)


def _client_address():
    import ray

    ray.init("ray://127.0.0.1:10001")


def _version():
    import ray

    assert ray.__version__.startswith("2.60.0+mobula.")


def _not_called():
    import ray

    assert ray.is_initialized


def _context_in_a_notebook():
    import ray

    _end()
    assert "Python version" in ray.init(address="local", num_cpus=1)._repr_html_()
    _end()


def _same_names():
    import ray

    assert ray.ObjectID is ray.ObjectRef


_PROGRAMS = {
    "@ray.remote": _without_arguments,
    "a first call starts the system": _starts_by_itself,
    "ray.get([ref, ref])": _list_of_refs,
    "ray.get(ref, timeout=)": _timeout,
    "ray.wait(refs, num_returns=, timeout=, fetch_local=)": _timeout,
    "ray.cancel(ref, force=, recursive=)": _timeout,
    "await ref": _awaited,
    "ref == ref, hash(ref)": _equal,
    "ray.remote(Class)": _actor,
    "a handle as an argument": _actor,
    "async actors": lambda: _actor("async"),
    "threaded actors": lambda: _actor("threads"),
    'node["NodeID"], node["Resources"]': _node_fields,
    "node:__internal_head__": _head,
    "except (RayTaskError, the cause's class)": _also_the_cause,
    "ray://": _client_address,
    "ray.__version__ = 2.60.0+mobula.<ours>": _version,
    "if not ray.is_initialized:": _not_called,
    "context._repr_html_()": _context_in_a_notebook,
    "ray.ObjectID = ray.ObjectRef": _same_names,
}


def verdict(said: str, remark: str, found: str) -> str:
    """What the page should say, given what it says and what was found."""
    if found != "there":
        return found
    return said if said in ("yes", "differs") else "differs" if remark else "yes"


def corrected(text: str, sources: Path = ROOT) -> "tuple[str, list[str]]":
    """The page as it should be, and what is wrong with this one."""
    lines, wrong = text.splitlines(), []
    count = dict.fromkeys(VERDICTS, 0)
    for number, name, said, remark in rows(text):
        try:
            should = verdict(said, remark, probe(name, sources))
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
            should = said
        if should == "differs" and not remark:
            wrong.append(f"{name}: differs, and the remark does not say how")
        if should != said:
            wrong.append(f"{name}: the page says {said}, and it is {should}")
        lines[number] = f"| `{name}` | {should} | {remark} |".replace("|  |", "| |")
        count[should] += 1
    _end()
    count["names"] = sum(count.values())
    for number, line in enumerate(lines):
        found = _COUNT.match(line)
        if found and int(found[3]) != count[found[1]]:
            wrong.append(f"there are {count[found[1]]} ({found[1]}), and the page says {found[3]}")
            lines[number] = f"| {found[1]} | {found[2]} | {count[found[1]]} |"
    return "\n".join(lines) + "\n", wrong


def counted(text: str, sources: Path) -> "dict[str, int]":
    """How many of the page's names this `ray` has, refuses, or knows nothing about."""
    count = {**dict.fromkeys(VERDICTS, 0), "silent": 0}
    for _, name, said, remark in rows(text):
        try:
            count[verdict(said, remark, probe(name, sources))] += 1
        except Exception as error:
            print(f"  {name}: {type(error).__name__}: {error}", file=sys.stderr)
            count["silent"] += 1
    _end()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="correct the page")
    parser.add_argument("--count", action="store_true", help="only count what is there")
    parser.add_argument("--sources", type=Path, default=ROOT, help="of the ray that is imported")
    args = parser.parse_args()
    text = PAGE.read_text()
    if args.count:
        print(counted(text, args.sources))
        return 0
    should, wrong = corrected(text, args.sources)
    print("\n".join(wrong))
    if args.write:
        PAGE.write_text(should)
    return bool(wrong and not args.write)


if __name__ == "__main__":
    sys.exit(main())
