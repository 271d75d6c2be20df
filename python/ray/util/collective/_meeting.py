"""Where the ranks of a collective group meet: an actor, one for each name of a group.

It carries small things only: who is there, what each rank has called, and references to objects of
the store. It keeps a call until all ranks that belong to it have come, and answers them together;
in between it goes on with other calls (as ray.util.queue's actor does).

The states, under one lock:

- A **party** is the ranks that use the name together. A rank joins the first party that is whole
  and where it has not been yet. So ranks that destroy their group and init it anew get a new party,
  though others have not left the old one yet; so does an actor that was restarted.
- A **round** is one call of each of its ranks, known by a key. The ranks of a party agree on keys,
  for each makes its calls in the same order. It is open until all have come. All of its calls are
  answered at the same moment, by the arrival of the last: no rank leaves it before the others can.
- A party breaks, once and for good, when a rank dies, gives up in the middle of a call or comes too
  late. Whoever waits gets the reason, and so does every later call. Nobody waits for a rank that
  will not come.
- A rank that has left is not waited for either: calls that need it get the reason. The party stays
  whole, for the others may still use it among themselves.
- Calls of one round that do not fit each other (shapes, dtypes, operations) fail on all of its
  ranks, and the party stays whole: all are in step.

An answer is a list, what each rank gave, or a string: the trouble.
"""

import os
import select
import threading

import ray

_LATER = object()  # a method returns it instead of an answer: its run was kept


def where() -> tuple:
    """The node and the process that this is."""
    return ray.get_runtime_context().get_node_id(), os.getpid()


class _Round:
    """One call of each of `ranks`, until all have come."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.came = {}  # rank to (what it calls, what it gives)
        self.runs = {}  # rank to the run that waits
        self.trouble = None

    def answer(self, trouble=None):
        if trouble is None:
            given = [self.came[rank][1] for rank in self.ranks]
        else:
            given = self.trouble = trouble
        for run in self.runs.values():
            run.done(given)
        self.runs.clear()

    def missing(self) -> list:
        return [rank for rank in self.ranks if rank not in self.came]


class _Party:
    """The ranks that use a group's name together."""

    def __init__(self, name, world_size):
        self.name = name
        self.world_size = world_size
        self.members = {}  # rank to (node, pid)
        self.gone = set()  # ranks that have left or died
        self.watches = {}  # rank to its pidfd
        self.rounds = {}
        self.broken = None

    def breaks(self, why):
        if self.broken is None:
            self.broken = (
                f"the collective group {self.name!r} is broken: {why}. Call "
                "destroy_collective_group on every rank, then init_collective_group"
            )
        for round_ in self.rounds.values():
            round_.answer(self.broken)
        self.rounds.clear()

    def has_left(self, rank) -> str:
        return f"rank {rank} has destroyed the collective group {self.name!r}"


class Meeting:
    """The actor."""

    def __init__(self, name):
        self._name = name
        self._lock = threading.Lock()
        self._parties = {}  # by number
        self._last = 0
        self._declared = None  # (actor id to rank, world size, timeout)
        self._node = where()[0]
        self._deaths = None  # an epoll of the ranks' pidfds
        self._run = None  # the one whose method is being called

    def __ray_serve__(self, next_run):
        while self._serve(next_run):
            pass

    def _serve(self, next_run):
        """Serves one call. Nothing of it is held afterwards: it may have references."""
        run = next_run()
        if run is None:
            return False
        with self._lock:
            self._run = run
            try:
                answer = run.call()
            except BaseException as error:
                run.failed([error])  # raises SystemExit, if it is that
                return True
            finally:
                self._run = None
            if answer is not _LATER:
                run.done(answer)
        return True

    def declare(self, ranks, world_size, timeout_ms):
        """Whether these actors, by id, are to be the group; not if there is one."""
        if self._declared is not None or self._parties:
            return False
        self._declared = ranks, world_size, timeout_ms
        return True

    def undeclare(self):
        self._declared = None

    def declared(self, actor):
        """The rank, world size and timeout that were declared for an actor, or None."""
        if self._declared is None or actor not in self._declared[0]:
            return None
        ranks, world_size, timeout_ms = self._declared
        return ranks[actor], world_size, timeout_ms

    def join(self, rank, world_size, whose):
        """The number of the party that this rank is in now; or the trouble."""
        number = self._party_for(rank, world_size)
        party = self._parties[number]
        if rank in party.members:
            node, pid = party.members[rank]
            return (
                f"rank {rank} of the collective group {self._name!r} is taken, by process {pid} of "
                f"node {node}"
            )
        if world_size != party.world_size:
            return (
                f"rank {rank} gives world_size {world_size} for the collective group "
                f"{self._name!r}, and rank {min(party.members)} {party.world_size}"
            )
        party.members[rank] = whose
        self._watch(number, party, rank)
        return number

    def _party_for(self, rank, world_size):
        for number, party in self._parties.items():
            if party.broken is None and rank not in party.gone:
                return number
        self._last += 1
        self._parties[self._last] = _Party(self._name, world_size)
        return self._last

    def leave(self, number, rank):
        party = self._parties.get(number)
        if party is None or rank in party.gone:
            return
        self._declared = None
        for round_ in party.rounds.values():
            if rank in round_.missing():
                round_.answer(party.has_left(rank))
        self._away(number, party, rank)

    def meet(self, number, key, ranks, rank, calls, gives):
        """One call of a rank: answered when all of `ranks` have come to it."""
        party = self._parties.get(number)
        if party is None:
            return f"the collective group {self._name!r} was destroyed"
        if party.broken is not None:
            return party.broken
        left = [other for other in ranks if other in party.gone]
        if left:
            return party.has_left(left[0])
        round_ = party.rounds.get(key)
        if round_ is None:
            round_ = party.rounds[key] = _Round(ranks)
        round_.came[rank] = calls, gives
        round_.runs[rank] = self._run
        first, (theirs, _) = next(iter(round_.came.items()))
        if round_.trouble is None and calls != theirs:
            round_.trouble = _misfit(self._name, first, theirs, rank, calls)
        if round_.trouble is not None:
            round_.answer(round_.trouble)
        if not round_.missing():
            self._complete(party, key, round_)
        return _LATER

    def _complete(self, party, key, round_):
        """All have come. A task that was cancelled while it waited may not come to say that it has
        given up: what it calls then is cancelled too.
        """
        cancelled = [rank for rank, run in round_.runs.items() if run.is_cancelled()]
        if cancelled:
            party.breaks(f"{_ranks(cancelled)} gave up in the middle of a call (cancelled)")
            return
        del party.rounds[key]
        round_.answer(round_.trouble)

    def late(self, number, key, seconds):
        """A rank has waited for so long: the trouble; or None, if its call has been answered."""
        party = self._parties.get(number)
        round_ = party and party.rounds.get(key)
        if not round_ or round_.trouble is not None:
            return party.broken if party else None
        never = [rank for rank in round_.missing() if rank not in party.members]
        idle = [rank for rank in round_.missing() if rank in party.members]
        why = []
        if never:
            why.append(f"{_ranks(never)} never joined it")
        if idle:
            why.append(f"{_ranks(idle)} did not come")
        calls = next(iter(round_.came.values()))[0][0]
        party.breaks(f"{calls} waited for {seconds:g} s, and {' and '.join(why)}")
        return party.broken

    def give_up(self, number, rank, why):
        party = self._parties.get(number)
        if party is not None:
            party.breaks(f"rank {rank} gave up in the middle of a call ({why})")

    def _away(self, number, party, rank):
        party.gone.add(rank)
        watch = party.watches.pop(rank, None)
        if watch is not None:
            self._deaths.unregister(watch)
            os.close(watch)
        if party.gone.issuperset(party.members):
            party.breaks("it was destroyed")  # those who have not joined yet join another one
            del self._parties[number]

    def _watch(self, number, party, rank):
        """Learns of the rank's death from the kernel. That of a rank elsewhere, or where the kernel
        tells nothing, others notice when they have waited for too long.
        """
        node, pid = party.members[rank]
        if node != self._node:
            return
        try:
            watch = os.pidfd_open(pid)
        except ProcessLookupError:
            self._died(number, party, rank)
            return
        except OSError:
            return
        if self._deaths is None:
            self._deaths = select.epoll()
            threading.Thread(target=self._await_deaths, daemon=True).start()
        party.watches[rank] = watch
        self._deaths.register(watch, select.EPOLLIN)

    def _await_deaths(self):
        while True:
            ready = {watch for watch, _ in self._deaths.poll()}
            with self._lock:
                # By their descriptors, which are looked up again: one that was closed meanwhile
                # may stand for another process now.
                for number, party in list(self._parties.items()):
                    for rank, watch in list(party.watches.items()):
                        if watch in ready and select.select([watch], [], [], 0)[0]:
                            self._died(number, party, rank)

    def _died(self, number, party, rank):
        party.breaks(f"rank {rank} (process {party.members[rank][1]}) died")
        self._away(number, party, rank)


def _ranks(ranks):
    words = ", ".join(map(str, ranks))
    return f"rank {words}" if len(ranks) == 1 else f"ranks {words}"


def _misfit(name, first, theirs, second, ours):
    return (
        f"calls in the collective group {name!r} do not fit each other: rank {first} called "
        f"{_call(theirs)}, rank {second} {_call(ours)}"
    )


def _call(calls):
    what, *details = calls
    return f"{what}({', '.join(map(str, details))})"
