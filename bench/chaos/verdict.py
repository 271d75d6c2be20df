"""Whether the history of one shift is one that may be: what a driver was told, beside what ran.

Of each id: what its results may be, and how often and in which order it may have begun. A run may
be followed by another one of the same id only if its process was killed.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from history import BEGIN, DIES, END, RESULT, SHOT, SUBMIT, Line, read

CRASHED, CANCELLED = "WorkerCrashedError", "TaskCancelledError"
REMOVED = "TaskPlacementGroupRemoved"
FELLED = "NodeDiedError"  # a task's node died: as CRASHED, in a cluster
LOST, GONE = "OwnerDiedError", "ObjectLostError"
AWAY, DEAD = "ActorUnavailableError", "ActorDiedError"

# The first letter of an id: its results, and how often it may begin (None: without end).
RULES: dict[str, tuple[set, int | None]] = {
    "t": ({"value"}, None),
    "n": ({"value"}, None),
    "u": ({"value"}, None),  # a generator that is closed early, and so does not run to its end
    "o": ({"value", CRASHED, FELLED}, 1),
    "r": ({"value", CRASHED, FELLED}, 4),
    "f": ({"value", CRASHED, FELLED}, 4),
    "g": ({CRASHED, FELLED}, 4),
    "h": ({"value"}, None),
    "w": ({CANCELLED}, 0),
    "x": ({"value", CANCELLED}, None),
    "b": ({"value", REMOVED}, None),
    "P": ({"value", AWAY}, 1),
    "Q": ({"value"}, None),
    "C": ({"value", DEAD}, 1),
    "N": ({"value", AWAY}, 1),
    "T": ({"value", AWAY}, 1),
    "Y": ({"value"}, None),
    "G": ({"value", AWAY}, 1),
    "K": ({"value", AWAY}, 1),
    "L": ({"value"}, None),
    # In a cluster (travel.py): values that may be lost with the node where they are, and actors.
    "v": ({"value", LOST}, 0),
    "R": ({"value", AWAY}, 1),
    "S": ({"value"}, None),
    "D": ({"value", DEAD, AWAY}, 1),
}
LARGE = "tor"  # whose values may be large
ORDERED = "PQCNKLRSD"  # one call at a time


class Verdict:
    """`killed`: when each process was killed, by its number; `complete`: the driver was there to
    the end, so it was told of everything that it had submitted; `lossy`: large values may be lost
    with the node where they are.
    """

    def __init__(
        self, folder: str, killed: dict[int, int], complete: bool, lossy: bool = False
    ) -> None:
        self.lost = {GONE} if lossy else set()
        self.killed = killed
        self.wrong: list[str] = []
        self.results: Counter = Counter()  # by kind and result
        told, runs = read(f"{folder}/told"), read(f"{folder}/runs")
        self.submitted = [line.id for line in told if line.word == SUBMIT]
        self.told = {line.id: line for line in told if line.word == RESULT}
        self.shot = {line.id for line in told if line.word == SHOT}
        self.begins: dict[str, list[Line]] = defaultdict(list)
        for line in runs:
            if line.word == BEGIN:
                self.begins[line.id].append(line)
        self.ends = {line.id for line in runs if line.word == END}
        self.suicides = {(line.id, line.pid) for line in runs if line.word == DIES}
        for id in self.submitted:
            self.look_at(id, complete)
        for id in self.begins:
            self.look_at_runs(id)
        self.look_at_order(runs)
        self.runs = sum(map(len, self.begins.values()))
        self.again = self.runs - len(self.begins)

    def fail(self, text: str) -> None:
        self.wrong.append(text)

    def look_at(self, id: str, complete: bool) -> None:
        allowed, _ = RULES[id[0]]
        if id not in self.told:
            if complete:
                self.fail(f"{id} was submitted, and nothing was told of it")
            return
        word = self.told[id].more
        self.results[id[0], word] += 1
        if word not in allowed | (self.lost if id[0] in LARGE else set()):
            self.fail(f"{id}: {word}")
        if word == "value" and id not in self.ends and id[0] not in "uv":
            self.fail(f"{id} has a value, but never ran to its end")
        if word in (CRASHED, FELLED, AWAY):
            self.look_at_crash(id, word)

    def look_at_crash(self, id: str, word: str) -> None:
        """Each run of what crashed was in a process that was killed; where it may be run several
        times, all of these were used up, but for runs that died before their first line.
        """
        lines = self.begins.get(id, [])
        for line in lines:
            if not self.died(line):
                self.fail(f"{id}: {word}, but its process {line.pid} was not killed")
        most = RULES[id[0]][1]
        if most is not None and most > 1 and len(lines) < most - 2:
            self.fail(f"{id}: {word} after {len(lines)} of {most} runs")

    def died(self, line: Line) -> bool:
        if (line.id, line.pid) in self.suicides or line.id.partition(".")[0] in self.shot:
            return True
        outer, _, inner = line.id.partition("/")
        if inner and len(self.begins[outer]) > 1:  # it submits all of its own again
            return True
        return self.killed.get(line.pid, 0) >= line.at

    def look_at_runs(self, id: str) -> None:
        lines = self.begins[id]
        if id.endswith(".made"):  # a constructor
            if id[0] in "CD" and len(lines) > 1:
                self.fail(f"{id}: made {len(lines)} times")
            return
        most = RULES[id[0]][1]
        if most is not None and len(lines) > most:
            self.fail(f"{id} began {len(lines)} times, {most} at most: {lines}")
        for line in lines[:-1]:
            if not self.died(line):
                self.fail(f"{id} ran again, but process {line.pid} was not killed: {lines}")
        if id in self.told and lines[-1].at > self.told[id].at:
            self.fail(f"{id} began after its result was there: {lines[-1]}, {self.told[id]}")

    def look_at_order(self, runs: list[Line]) -> None:
        """Each actor begins the driver's calls in their order; one that is retried comes again
        before the next.
        """
        last: dict[str, int] = {}
        for line in runs:
            if line.word != BEGIN or line.id[0] not in ORDERED or line.id.endswith(".made"):
                continue
            actor, _, number = line.id.partition(".")
            if int(number) < last.get(actor, -1):
                self.fail(f"{line.id} began after {actor}.{last[actor]}")
            last[actor] = int(number)
