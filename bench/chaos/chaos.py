"""One run: the lives of nodes, what is done to them, and what was seen."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from crew import DRIVERS, HERE, Driver, Funeral
from history import CALM, LOST, WIDTH
from killer import Killer
from verdict import Verdict

from node import Node, await_true, described, is_alive, named_memory, with_mark

WEIGHTS = {"worker": 55, "actor": 25, "zygote": 7, "driver": 6, "stop": 15}
BURST = 2  # at a time, in the middle
CALM_SECONDS = 60.0  # for a driver to finish its round; what hangs in it tells so before
# Why what is kept of failed tasks is held; the last is inside of another that is.
KEPT = ("UNKNOWN_STATUS", "USED_BY_LINEAGE", "CAPTURED_IN_OBJECT")
MOST_KEPT = 300  # a hundred tasks, their functions and arguments
EXTENT = 1 << 20  # bytes
SLACK = 2 << 20  # bytes of the store that may be in use when nobody has anything


class Chaos:
    weights = WEIGHTS
    kept = KEPT
    lossy = False  # whether values may be lost

    def __init__(self, root: str, options: argparse.Namespace) -> None:
        self.root, self.options = root, options
        self.rng = random.Random(options.seed)
        self.killer = Killer(self.rng)
        given = dict(part.split("=") for part in options.mix.split(",") if part)
        self.gone = options.patience  # seconds in which all of what was killed is gone
        if given:
            self.weights = {kind: float(given.get(kind, 0)) for kind in self.weights}
        self.begin = time.monotonic()
        self.whole = False  # it came to its end
        self.life = 0
        self.named = 0  # drivers so far
        self.node: Node | None = None
        self.drivers: list[Driver] = []
        self.funerals: list[Funeral] = []
        self.wrong: list[str] = []
        self.results: Counter = Counter()
        self.counts: Counter = Counter()  # tasks, runs, runs again, lives
        self.slowest: Counter = Counter()  # seconds: a daemon's death to its notice, a funeral
        self.memory: list[int] = []  # of the daemon, at the end of each calm life

    # The run.

    def run(self) -> None:
        while not self.enough() and not self.wrong:
            self.live()
            self.tell()
        self.whole = not self.wrong

    def enough(self) -> bool:
        wanted = self.options
        return self.killer.kills >= wanted.kills and self.counts["tasks"] >= wanted.tasks

    def live(self) -> None:
        """One node, from its start to its end."""
        self.start_node()
        while len(self.drivers) < DRIVERS:
            self.start_driver()
        self.strike_all()
        if self.wrong:
            return
        if self.rng.random() < 0.5 or self.killer.kills >= self.options.kills:
            self.end_calmly()
        else:
            self.end_by_kill()
        self.life += 1

    def strike_all(self) -> None:
        """All strikes of a life."""
        pause = self.options.seconds / self.options.kills
        wanted = self.killer.kills + self.options.life
        due = time.monotonic()
        while self.killer.kills < wanted and not self.wrong and not self.is_last_over():
            due = max(due, time.monotonic() - 1) + self.rng.expovariate(1 / pause) * BURST
            self.wait(due)
            for _ in range(self.rng.randrange(1, 2 * BURST)):
                self.strike()

    def is_last_over(self) -> bool:
        """Whether all kills are done and the tasks that are still open are enough."""
        if self.killer.kills < self.options.kills:
            return False
        sizes = [os.path.getsize(path) for path in Path(self.root).glob("*/told")]
        return self.counts["tasks"] + sum(sizes) // (2 * WIDTH) >= self.options.tasks

    def start_node(self) -> None:
        self.node = Node(self.root)
        if self.node.left_by_others:
            self.fail(f"folders of dead nodes are left: {self.node.left_by_others}")
        self.keeper(self.rng.choice(("make", "die")))
        self.announce(self.node)

    def announce(self, node: Node, place: str = "") -> None:
        """Lets drivers join it."""
        path = f"{self.root}/node{place}"
        with open(path + "~", "w") as file:
            json.dump({"life": self.life, "address": node.folder}, file)
        os.rename(path + "~", path)

    def keeper(self, what: str) -> None:
        done = subprocess.run(
            [sys.executable, str(HERE / "keeper.py"), self.node.folder, what],
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode not in (0, -9):
            self.fail(f"the keepers' driver ({what}) ended with {done.returncode}: {done.stderr}")

    def start_driver(self, place: str = "") -> None:
        self.named += 1
        self.drivers.append(Driver(self.root, f"d{self.named}", self.options.seed, place))

    def node_of(self, driver: Driver) -> Node:
        return self.node

    # What is done to it.

    def wait(self, due: float) -> None:
        """Until then those that were stopped go on in their time, and funerals are looked at."""
        while not self.wrong:
            self.killer.go_on()
            self.look()
            left = due - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.02))

    def strike(self) -> None:
        kind = self.rng.choices([*self.weights], [*self.weights.values()])[0]
        if kind == "driver":
            self.kill_driver(self.rng.choice(self.drivers))
        elif kind == "stop":
            self.killer.stop(self.node.children() + [driver.pid for driver in self.drivers])
        else:
            self.killer.kill_child(self.node, kind)

    def kill_driver(self, driver: Driver) -> None:
        self.killer.kill(driver.pid, "driver")
        driver.process.wait()
        self.drivers.remove(driver)
        self.funerals.append(Funeral(driver, self.node_of(driver), self.gone))
        self.start_driver(driver.place)

    def look(self) -> None:
        if not is_alive(self.node.pid):
            self.fail("the daemon died, and nobody had killed it")
            return
        self.look_at_drivers()

    def look_at_drivers(self) -> None:
        for driver in self.drivers:
            if driver.process.poll() is not None:
                self.fail(driver.complaint() or f"{driver.name} ended too early")
        for funeral in list(self.funerals):
            left = funeral.left()
            if left and funeral.is_late():
                self.fail(
                    f"{self.gone:g} s after {funeral.driver.name} was killed there are left: {left}"
                )
            if not left or funeral.is_late():
                self.slowest["funeral"] = max(
                    self.slowest["funeral"], time.monotonic() - funeral.begin
                )
                self.funerals.remove(funeral)
                self.judge(funeral.driver, complete=False)

    def judge(self, driver: Driver, complete: bool) -> None:
        """Looks at the histories of a driver's shifts that are over."""
        for folder in driver.shifts():
            verdict = Verdict(folder, self.killer.times, complete, self.lossy)
            self.results.update(verdict.results)
            self.counts["tasks"] += len(verdict.submitted)
            self.counts["runs"] += verdict.runs
            self.counts["runs again"] += verdict.again
            for text in verdict.wrong[:10]:
                self.fail(f"{os.path.basename(folder)}: {text}")
            if not verdict.wrong:
                shutil.rmtree(folder)

    # How it ends.

    def end_by_kill(self) -> None:
        """With everybody at work: each driver has a named error soon, and all else is gone."""
        self.killer.go_on(everybody=True)
        self.bury()
        at = time.monotonic_ns()
        self.killer.kill(self.node.pid, "daemon")
        for driver in self.drivers:
            self.look_at_notice(driver, at)
        mine = {driver.pid for driver in self.drivers}
        marks = [driver.mark for driver in self.drivers]

        def left() -> list[int]:
            return [pid for mark in marks for pid in with_mark(mark) if pid not in mine]

        if not await_true(lambda: not left(), self.gone):
            self.fail(f"these outlived their daemon: {', '.join(map(described, left()))}")
        took = (time.monotonic_ns() - at) / 1e9
        self.slowest["orphan"] = max(self.slowest["orphan"], took)
        self.counts["nodes killed"] += 1

    def look_at_notice(self, driver: Driver, at: int) -> None:
        """When the driver had the error of a daemon that was killed then."""
        if not await_true(lambda: driver.has_ended(self.life), 6 * self.gone):
            self.fail(f"{driver.name} did not notice the daemon's death: {self.state(driver)}")
            return
        took = (driver.was_told(self.life, LOST) - at) / 1e9
        self.slowest["notice"] = max(self.slowest["notice"], took)
        if took > self.gone:
            self.fail(f"{driver.name} noticed after {took:.1f} s that the daemon was killed")
        self.judge(driver, complete=False)

    def state(self, driver: Driver) -> str:
        return driver.complaint() or f"its log is {driver.log}"

    def end_calmly(self) -> None:
        """With nobody at work: what is left?"""
        self.killer.go_on(everybody=True)
        self.bury()
        open(f"{self.root}/calm-{self.life}", "w").close()
        for driver in self.drivers:
            if not self.await_calm(driver, self.life):
                return
        self.keeper("end")
        self.memory.append(self.node.memory())
        self.look_at_rest(self.node)
        self.node.stop()
        left = self.node.folders() + named_memory()
        if left:
            self.fail(f"after ray stop there are left: {left}")
        self.counts["nodes ended in peace"] += 1

    def await_calm(self, driver: Driver, life: int) -> bool:
        """Whether it ended in peace."""
        ended = await_true(
            lambda: driver.has_ended(life) or driver.process.poll() is not None, CALM_SECONDS
        )
        if not ended or not driver.was_told(life, CALM):
            self.fail(f"{driver.name} did not come to its end: {self.state(driver)}")
            return False
        self.judge(driver, complete=True)
        return True

    def look_at_rest(self, node: Node) -> None:
        if not await_true(lambda: not self.left_over(node), 2 * self.gone):
            self.fail(f"when all was over there were left: {self.left_over(node)}")

    def left_over(self, node: Node) -> str:
        """What a node still has that nobody uses. The functions and arguments of tasks that failed
        stay for `ray replay`, each perhaps alone in an extent.
        """
        descriptors = node.more_descriptors()
        objects = node.objects()
        kept = [row for row in objects if row[5] in self.kept]
        may_use = SLACK + len(kept) * EXTENT
        used = {
            name: amount
            for name, amount in node.used().items()
            if name != "object_store_memory" or amount > may_use
        }
        found = {
            "jobs": node.jobs(),
            "processes": [described(pid) for pid in node.processes()],
            "resources": used,
            "objects": [row for row in objects if row[5] not in self.kept][:5],
            "objects of failed tasks": len(kept) if len(kept) > MOST_KEPT else 0,
            "descriptors": descriptors,
        }
        known = {
            "drivers that it watches": [described(pid) for pid in node.watched()],
            "mothers": [described(pid) for pid in node.mothers()],
        }
        told = {**found, **known} if descriptors else found
        return ", ".join(f"{name} {what}" for name, what in told.items() if what)

    def bury(self) -> None:
        while self.funerals and not self.wrong:
            self.look()
            time.sleep(0.02)

    def end(self) -> None:
        """Ends what this run has started, whatever became of it."""
        if self.options.hold and self.wrong:
            print("\n".join(self.wrong))
            print(f"held: {self.root}", flush=True)
            time.sleep(100_000)
        open(f"{self.root}/over", "w").close()
        for driver in self.drivers:
            if not self.whole:
                driver.process.kill()
            try:
                driver.process.wait(30)
            except subprocess.TimeoutExpired:
                self.fail(f"{driver.name} did not end")
                driver.process.kill()
        self.stop_all()
        if not await_true(lambda: not with_mark(f"RAY_TMPDIR={self.root}"), self.gone):
            left = map(described, with_mark(f"RAY_TMPDIR={self.root}"))
            self.fail(f"at the very end there are left: {', '.join(left)}")

    def stop_all(self) -> None:
        if self.node is not None and is_alive(self.node.pid):
            self.node.stop()

    # What is told.

    def fail(self, text: str) -> None:
        self.wrong.append(text)
        print(f"WRONG (life {self.life}): {text}", flush=True)

    def tell(self) -> None:
        passed = time.monotonic() - self.begin
        kills = ", ".join(f"{count} {kind}s" for kind, count in sorted(self.killer.counts.items()))
        print(f"{passed:6.0f} s  {self.counts['tasks']} tasks and calls  {kills}", flush=True)

    def lines(self) -> list[str]:
        """The summary, a sentence each."""
        counts, killed = self.counts, self.killer.counts
        kinds = ("worker", "actor", "zygote", "driver", "daemon")
        kills = ", ".join(f"{killed[kind]} {kind}s" for kind in kinds)
        found = [
            f"seed {self.options.seed}, {time.monotonic() - self.begin:.0f} s",
            f"{self.killer.kills} kills: {kills}; {killed['stop']} clients stopped for a while",
            f"{counts['tasks']} tasks and calls submitted, {counts['runs']} runs begun, "
            f"{counts['runs again']} of them again after a kill",
            f"{counts['nodes killed']} nodes killed with everybody at work, "
            f"{counts['nodes ended in peace']} ended in peace",
            f"the daemon's death was noticed after {self.slowest['notice']:.2f} s at most, "
            f"and its processes were gone after {self.slowest['orphan']:.2f} s",
            f"a killed driver's processes were gone after {self.slowest['funeral']:.2f} s at most",
        ]
        if self.memory:
            found.append(f"the daemon's memory at the end: at most {max(self.memory) >> 10} KiB")
        found.append(f"wrong: {len(self.wrong)}")
        return found

    def summary(self) -> str:
        rows = sorted(self.results.items())
        table = [f"  {kind}  {word:24} {count:9}" for (kind, word), count in rows]
        return "\n".join(["", *self.lines(), "", "what became of them, by kind:", *table])
