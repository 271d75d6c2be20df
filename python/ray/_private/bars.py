"""Progress bars of workers, on the driver's standard error (see ray.experimental.tqdm_ray).

A worker prints the state of a bar as a line of its own, which the driver takes out of the worker's
output and draws as a bar of tqdm. Where tqdm is not installed, a line is printed when a bar ends.
"""

import contextlib
import json
import sys
import threading

from ray._private.printing import BAR as MAGIC

_lock = threading.RLock()
_bars = {}  # the bar's id to its _Bar


class _Bar:
    """One bar, drawn by tqdm."""

    def __init__(self, position):
        self.position = position
        self.drawn = None

    def show(self, state):
        if self.drawn is None:
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self.drawn = tqdm(
                total=state["total"],
                desc=state["desc"],
                unit=state["unit"],
                position=self.position,
                leave=False,
                dynamic_ncols=True,
            )
        self.drawn.n = state["x"]
        self.drawn.total = state["total"]
        self.drawn.set_description(state["desc"], refresh=False)
        self.drawn.refresh()

    def end(self, state):
        if self.drawn is None:
            _of_all = f"/{state['total']}" if state["total"] else ""
            print(f"{state['desc']}: {state['x']}{_of_all} {state['unit']}", file=sys.stderr)
            return
        last = str(self.drawn)
        self.drawn.close()
        print(last, file=sys.stderr)  # bars that are over go up, as any other line


def line(state: dict) -> str:
    """What a worker prints for a state."""
    return MAGIC + json.dumps(state) + "\n"


def take(text: str, prefix: str) -> str:
    """Shows the bars whose states lie in what a worker has printed; returns the rest of it."""
    rest = []
    for part in text.split("\n"):
        head, magic, told = part.partition(MAGIC)
        if not magic:
            rest.append(part)
            continue
        if head:
            rest.append(head)
        try:
            state = json.loads(told)
            state["desc"] = prefix + (state["desc"] or "")
            show(state)
        except (ValueError, KeyError, TypeError):  # a user's own text
            rest.append(part)
    return "\n".join(rest)


def show(state: dict):
    """Draws a bar as it is now; the last time if it is closed."""
    with _lock:
        bar = _bars.get(state["uuid"])
        if bar is None:
            used = {other.position for other in _bars.values()}
            bar = _Bar(next(i for i in range(len(used) + 1) if i not in used))
            _bars[state["uuid"]] = bar
        bar.show(state)
        if state["closed"]:
            del _bars[state["uuid"]]
            with hidden():
                bar.end(state)


def forget():
    """There is nothing more to come: bars that nobody has closed stay as they are."""
    with _lock:
        for bar in _bars.values():
            if bar.drawn is not None:
                bar.drawn.leave = True
                bar.drawn.close()
        _bars.clear()


@contextlib.contextmanager
def hidden():
    """The bars are not on the screen while something else is printed there."""
    with _lock:
        drawn = [bar.drawn for bar in _bars.values() if bar.drawn is not None]
        for bar in drawn:
            bar.clear()
        try:
            yield
        finally:
            for bar in drawn:
                bar.refresh()
