"""The child's side of the bench: one measured system in one process, told what to do line by line
on standard input.

    init            start the system                         {"seconds": s}
    first           run one task and get its result          {"seconds": s}
    cold            put 200 MiB for the first time           {"value": GB/s}
    run ROW SECONDS one window of a row                      {"value": v}
    end ROW         drop what the row had prepared           {}
    quit            stop the system and leave                {}

Every command is answered by one JSON line; one that raised is answered by {"error": text}. The
first line, before any command, is {"version": v}: the system is imported but not started.

The answers go to a private copy of standard output, and standard output itself is pointed at
standard error, because a system may print its workers' output there. Standard input is replaced
too, so that no daemon holds the runner's pipe.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator

Measure = Callable[[float], float]
Rows = dict[str, Callable[[], Iterator[Measure]]]


def rate(body: Callable[[], int]) -> Measure:
    """Makes a row of things per second out of a body that does some of them and says how many.

    The body is run once before each window: the first must not pay for shipping a function or
    starting a worker, nor the later ones for what a system lets go of (leases, warm caches) while
    its neighbours are measured.
    """

    def measure(seconds: float) -> float:
        body()
        done, start = 0, time.perf_counter()
        while True:
            done += body()
            took = time.perf_counter() - start
            if took >= seconds:
                return done / took

    return measure


def median_us(call: Callable[[], object], pause: float) -> Measure:
    """Makes a row of the median time of a call, in microseconds, with a pause of that many seconds
    before each.
    """

    def measure(seconds: float) -> float:
        samples = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(samples) < 10:
            time.sleep(pause)
            start = time.perf_counter()
            call()
            samples.append(time.perf_counter() - start)
        samples.sort()
        return samples[len(samples) // 2] * 1e6

    return measure


def filled(count: int):
    """An array of that many float64 with random content: untouched zeros would all be one page,
    read from the cache.
    """
    import numpy

    return numpy.random.default_rng(7).random(count)


class Server:
    """Obeys the commands. A row is a generator: it prepares, yields its measure, and cleans up when
    it is resumed.
    """

    def __init__(self, system, rows: Rows) -> None:
        self.system = system
        self.rows = rows
        self.open: dict[str, tuple[Iterator[Measure], Measure]] = {}

    def init(self) -> dict:
        start = time.perf_counter()
        self.system.init()
        return {"seconds": time.perf_counter() - start}

    def first(self) -> dict:
        start = time.perf_counter()
        self.system.first()
        return {"seconds": time.perf_counter() - start}

    def cold(self) -> dict:
        array = filled((200 << 20) // 8)
        start = time.perf_counter()
        self.system.put(array)
        return {"value": array.nbytes / (time.perf_counter() - start) / 1e9}

    def run(self, name: str, seconds: str) -> dict:
        if name not in self.open:
            row = self.rows[name]()
            self.open[name] = (row, next(row))
        return {"value": self.open[name][1](float(seconds))}

    def end(self, name: str) -> dict:
        row, _ = self.open.pop(name, (None, None))
        if row is not None:
            next(row, None)
        return {}

    def quit(self) -> dict:
        self.system.stop()
        return {}

    def answer(self, line: str) -> dict:
        command, *words = line.split()
        try:
            return getattr(self, command)(*words)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            # A remote failure's text is a traceback: its last line names the cause.
            text = lines[-1] if len(lines) > 3 else lines[0]
            return {"error": f"{type(error).__name__}: {text}"}


def serve(system, rows: Rows) -> None:
    """Answers commands until "quit" or until the runner is gone."""
    answers = os.fdopen(os.dup(1), "w")
    commands = os.fdopen(os.dup(0))
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def say(what: dict) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    server = Server(system, rows)
    say({"version": system.version})
    for line in commands:
        say(server.answer(line))
        if line.strip() == "quit":
            break
