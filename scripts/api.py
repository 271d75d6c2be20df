"""Writes docs/api.md from the docstrings of the public names, or tells whether it is up to date.

.venv/bin/python scripts/api.py             # exit status 1 if the page is not what it should be
.venv/bin/python scripts/api.py --write
"""

import argparse
import ast
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
_SECTIONS = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
# The modules of the page, and their names where a module has no __all__ of its own.
MODULES = {
    "ray": None,
    "ray.actor": ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"],
    "ray.remote_function": ["RemoteFunction"],
    "ray.runtime_context": ["RuntimeContext"],
    "ray.runtime_env": None,
    "ray.job_config": ["JobConfig"],
    "ray.cluster_utils": None,
    "ray.util": None,
    "ray.util.queue": None,
    "ray.util.multiprocessing": ["Pool"],
    "ray.util.joblib": ["register_ray"],
    "ray.util.dask": None,
    "ray.util.metrics": ["Counter", "Gauge", "Histogram", "snapshot"],
    "ray.util.scheduling_strategies": [
        "PlacementGroupSchedulingStrategy",
        "NodeAffinitySchedulingStrategy",
        "NodeLabelSchedulingStrategy",
    ],
    "ray.util.collective": [
        "init_collective_group",
        "create_collective_group",
        "destroy_collective_group",
        "is_group_initialized",
        "get_rank",
        "get_collective_group_size",
        "allreduce",
        "reduce",
        "broadcast",
        "allgather",
        "reducescatter",
        "send",
        "recv",
        "barrier",
    ],
    "ray.util.state": None,
    "ray.dag": None,
    "ray.exceptions": None,
}


def public(module: str):
    """(name, object) of each public function and class of a module."""
    found = importlib.import_module(module)
    for name in MODULES[module] or sorted(found.__all__, key=str.lower):
        thing = getattr(found, name)
        if callable(thing):
            yield name, thing


def members(kind: type):
    """(name, member) of the public methods and properties that a class itself has, as written."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and (
            callable(member) or isinstance(member, (property, staticmethod, classmethod))
        ):
            yield name, getattr(member, "__func__", member)


def paragraphs(docstring: str):
    """("text" | "code" | a section's heading, lines) of each paragraph. Code is indented, or not:
    where nothing but the first line stands before it, the formatter takes the indentation away.
    """
    section = None
    for block in re.split(r"\n\n+", inspect.cleandoc(docstring or "")):
        lines = block.split("\n")
        if _SECTIONS.match(lines[0]):
            section = lines[0]
            yield section, lines[1:]
        elif lines[0].startswith("    "):
            yield ("code" if section is None else section), lines
        else:
            section = None
            yield ("code" if _is_code(lines) else "text"), lines


def example(docstring: str) -> "str | None":
    """The first paragraph that is Python, or a dialogue with it."""
    for kind, lines in paragraphs(docstring):
        if kind == "code" and _is_code(lines):
            return textwrap.dedent("\n".join(lines))
    return None


def _is_code(lines):
    """Whether it is a program, or a dialogue; words that happen to be an expression are none."""
    if lines[0].lstrip().startswith(">>>"):
        return True
    try:
        body = ast.parse(textwrap.dedent("\n".join(lines))).body
    except SyntaxError:
        return False
    return any(
        not isinstance(s, ast.Expr) or isinstance(s.value, (ast.Call, ast.Await)) for s in body
    )


def _signature(name, thing):
    try:
        return name + str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name


def _shown(docstring):
    """A docstring as Markdown: its sections become lists."""
    out = []
    for kind, lines in paragraphs(docstring):
        if kind == "code":
            margin = "" if lines[0].startswith("    ") else "    "
            out.append("\n".join(margin + line for line in lines))
        elif kind == "text":
            out.append("\n".join(lines))
        else:
            items = [re.sub(r"^    (?=\S)", "- ", line) for line in lines]
            items = [re.sub(r"^     +", "  ", line) for line in items]
            out.append("\n".join([f"*{kind}*", "", *items]))
    return "\n\n".join(out)


def _entry(module, name, thing):
    yield f"### {module}.{name}\n"
    if not (isinstance(thing, type) and issubclass(thing, BaseException)):
        yield from _code(_signature(name, thing))
    yield _shown(thing.__doc__) + "\n"
    if isinstance(thing, type):
        for member, method in members(thing):
            if method.__doc__:
                summary = " ".join(_shown(method.__doc__).split("\n\n")[0].split())
                text = f"- **{member}**: {summary}"
                yield textwrap.fill(text, 100, subsequent_indent="  ", **_WORDS)
        yield ""


_WORDS = {"break_long_words": False, "break_on_hyphens": False}


def _code(signature):
    yield "```python"
    yield textwrap.fill(signature, 96, subsequent_indent="    ", **_WORDS)
    yield "```\n"


def page() -> str:
    """The page as it should be."""
    lines = [
        "# API",
        "",
        "Made from the docstrings by scripts/api.py; `help(ray.get)` says the same.",
        "[compatibility.md](compatibility.md) has what of Ray's names is here, and",
        "[util.md](util.md) more about ray.util.",
        "",
    ]
    for module in MODULES:
        lines += [f"## {module}", ""]
        for name, thing in public(module):
            lines += _entry(module, name, thing)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    args = parser.parse_args()
    should = page()
    if args.write:
        PAGE.write_text(should)
        return 0
    return PAGE.read_text() != should


if __name__ == "__main__":
    sys.exit(main())
