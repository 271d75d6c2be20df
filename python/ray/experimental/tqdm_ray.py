"""tqdm for tasks and actors: their bars are drawn at the driver, one below the other.

from ray.experimental import tqdm_ray

@ray.remote
def work(n):
    for _ in tqdm_ray.tqdm(range(n), desc="work"):
        time.sleep(0.1)
"""

import builtins
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator

from ray._private import bars, session

__all__ = ["safe_print", "tqdm"]


class tqdm:  # noqa: N801  (tqdm's own name)
    """A progress bar, with the part of tqdm's interface that a worker needs.

        bar = tqdm_ray.tqdm(total=100, desc="rows", unit="rows")
        bar.update(10)
        bar.close()

    The driver hears of it every `flush_interval_s` seconds at most. `position` is chosen by the
    driver, which sees the bars of all processes.
    """

    def __init__(
        self,
        iterable: "Iterable | None" = None,
        desc: "str | None" = None,
        total: "int | None" = None,
        unit: "str | None" = None,
        position: "int | None" = None,
        flush_interval_s: "float | None" = None,
    ):
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)
        self._iterable = iterable
        self._desc = desc or ""
        self._total = total
        self._unit = unit or "it"
        self._interval = 0.1 if flush_interval_s is None else flush_interval_s
        self._id = uuid.uuid4().hex
        self._closed = False
        self._next = 0.0  # when the driver may hear of it again
        self._lock = threading.Lock()
        self.n = 0
        self.refresh()

    def __iter__(self) -> Iterator:
        if self._iterable is None:
            raise ValueError(
                "this bar has nothing to go over: give it an iterable, or use update()"
            )
        try:
            for item in self._iterable:
                yield item
                self.update()
        finally:
            self.close()

    def update(self, n: int = 1) -> None:
        """Goes on by n."""
        self.n += n
        if time.monotonic() >= self._next:
            self.refresh()

    def set_description(self, desc: str) -> None:
        """Gives the bar another text."""
        self._desc = desc
        self.refresh()

    def set_total(self, total: int) -> None:
        """Says how much there is to do, if that is known only now."""
        self._total = total
        self.refresh()

    @property
    def total(self) -> "int | None":
        """How much there is to do. `bar.total += 1` is set_total, as with tqdm's own bars."""
        return self._total

    @total.setter
    def total(self, total: int) -> None:
        self.set_total(total)

    def refresh(self) -> None:
        """Shows it as it is now."""
        with self._lock:
            self._next = time.monotonic() + self._interval
            state = {
                "uuid": self._id,
                "desc": self._desc,
                "total": self._total,
                "unit": self._unit,
                "x": self.n,
                "closed": self._closed,
            }
            if session.mode == session.WORKER_MODE and session.pid == os.getpid():
                sys.stdout.write(bars.line(state))
            else:
                bars.show(state)

    def close(self) -> None:
        """Ends the bar."""
        if not self._closed:
            self._closed = True
            self.refresh()

    def __enter__(self) -> "tqdm":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass


def safe_print(*args, **kwargs) -> None:
    """print, which bars that are being drawn make room for.

    tqdm_ray.safe_print("half of it is done")
    """
    with bars.hidden():
        builtins.print(*args, **kwargs)
