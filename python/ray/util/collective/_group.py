"""A rank's side of a collective group: what each operation copies, reduces and waits for.

Arrays go through the object store. A rank puts what others need, the ranks swap references in a
round of their meeting (_meeting.py), and each reads the others' parts in place. So a part is copied
once into the store and once out of it, or out of it by the reduction itself. What is in the store is
counted as any object, and freed by whoever is the last to let it go, or to die.

- **allreduce**: rank i reduces the i-th part of all arrays into its own array, then all ranks swap
  what they have reduced. Each element is reduced by one rank, so all ranks get the same bits.
- **reduce**: the same, but only one rank reads what was reduced.
- **reducescatter**: the first half of it.
- **broadcast**, **allgather**, **send**: a put, a round, and copies.

Large arrays go in pieces: the store's memory of the last piece is used again for the next, while it
is still in the processor's caches, and no rank takes more of the store than two pieces. Arrays below
SMALL go by value, in one round.
"""

import itertools
import threading
from collections import defaultdict
from contextlib import contextmanager

import numpy as np

import ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.collective import _arrays

SMALL = 16 << 10
PIECE = 16 << 20


class _Trouble(Exception):
    """What the meeting says why a round came to nothing."""


class Group:
    """This process as one rank of a group. Its operations may be called by any thread; those of all
    ranks are made one after the other, in the same order on each.
    """

    def __init__(self, name, world_size, rank, timeout_ms, meeting, number):
        self.name = name
        self.world_size = world_size
        self.rank = rank
        self.timeout_s = timeout_ms / 1000
        self._meeting = meeting
        self._number = number
        self._all = tuple(range(world_size))
        self._gave_up = None  # why this rank is no longer in step with the others
        # Of the operations of all ranks, and of those from one rank to another: whose turn it is,
        # and how many there were.
        self._locks = defaultdict(threading.Lock)
        self._counts = defaultdict(itertools.count)

    def destroy(self):
        """Leaves the group."""
        self._meeting.leave.remote(self._number, self.rank)

    def barrier(self):
        """Returns when all ranks have called it."""
        with self._operation(self._all) as swap:
            swap(("barrier",))

    def allreduce(self, array, op):
        calls = ("allreduce", op.name, str(array.dtype), array.shape)
        with self._operation(self._all) as swap:
            flat = _arrays.Flat(array)
            if array.nbytes <= SMALL:
                self._reduce_small(swap, calls, flat.data, op)
            else:
                for piece in _pieces(flat.data):
                    parts = _arrays.cuts(piece, self.world_size)
                    mine = parts[self.rank]
                    self._reduce_part(swap, calls, parts, mine, op)
                    self._swap_arrays(swap, calls, mine, parts)
            flat.close()

    def reduce(self, array, root, op):
        calls = ("reduce", op.name, f"dst_rank={root}", str(array.dtype), array.shape)
        with self._operation(self._all) as swap:
            # Only the root's array may change.
            flat = _arrays.Flat(array) if self.rank == root else None
            data = flat.data if flat else _arrays.flat(array)
            if array.nbytes <= SMALL:
                self._reduce_small(swap, calls, data if flat else data.copy(), op)
            else:
                for piece in _pieces(data):
                    self._reduce_piece(swap, calls, piece, root, op)
            if flat:
                flat.close()

    def _reduce_piece(self, swap, calls, piece, root, op):
        parts = _arrays.cuts(piece, self.world_size)
        mine = parts[self.rank]
        if self.rank != root:
            mine = mine.copy()
        self._reduce_part(swap, calls, parts, mine, op)
        given = swap(calls, None if self.rank == root else (ray.put(mine),))
        if self.rank == root:
            self._copy(given, parts)

    def reducescatter(self, output, arrays, op):
        calls = (
            "reducescatter",
            op.name,
            str(output.dtype),
            tuple(array.shape for array in arrays),
        )
        with self._operation(self._all) as swap:
            flat = _arrays.Flat(output)
            parts = [_arrays.flat(array) for array in arrays]
            flat.data[:] = parts[self.rank]
            count = max(1, -(-sum(part.nbytes for part in parts) // PIECE))
            pieces = zip(*(_arrays.cuts(part, count) for part in parts))
            for piece, mine in zip(pieces, _arrays.cuts(flat.data, count)):
                self._reduce_part(swap, calls, piece, mine, op)
            flat.close()

    def broadcast(self, array, root):
        calls = ("broadcast", f"src_rank={root}", str(array.dtype), array.shape)
        with self._operation(self._all) as swap:
            self._carry(swap, calls, array, root)

    def allgather(self, outputs, array):
        calls = ("allgather", str(array.dtype), array.shape)
        with self._operation(self._all) as swap:
            flats = [_arrays.Flat(output) for output in outputs]
            mine = _arrays.flat(array)
            flats[self.rank].data[:] = mine
            if array.nbytes <= SMALL:
                for flat, given in zip(flats, swap(calls, mine.tobytes())):
                    flat.data[:] = np.frombuffer(given, array.dtype)
            else:
                outputs = zip(*(_pieces(flat.data) for flat in flats))
                for piece, parts in zip(_pieces(mine), outputs):
                    self._swap_arrays(swap, calls, piece, parts)
            for flat in flats:
                flat.close()

    def send(self, array, to):
        self._transfer(array, self.rank, to)

    def recv(self, array, source):
        self._transfer(array, source, self.rank)

    def _transfer(self, array, source, to):
        calls = (f"send and recv, from rank {source} to {to},", str(array.dtype), array.shape)
        with self._operation((source, to)) as swap:
            self._carry(swap, calls, array, source)

    def _reduce_small(self, swap, calls, data, op):
        """Every rank reduces all of it, in the order of ranks."""
        given = [np.frombuffer(one, data.dtype) for one in swap(calls, data.tobytes())]
        data[:] = given[0]
        _arrays.reduce_into(data, given[1:], op)

    def _reduce_part(self, swap, calls, parts, mine, op):
        """Gives the others their parts, and reduces theirs of this rank into `mine`."""
        for_others = [None if rank == self.rank else part for rank, part in enumerate(parts)]
        given = swap(calls, (ray.put(for_others),))
        theirs = ray.get([one for rank, (one,) in enumerate(given) if rank != self.rank])
        _arrays.reduce_into(mine, [parts[self.rank] for parts in theirs], op)

    def _swap_arrays(self, swap, calls, mine, outputs):
        """Every rank gives an array, and writes those of the others into its outputs."""
        self._copy(swap(calls, (ray.put(mine),)), outputs)

    def _copy(self, given, outputs):
        for rank, one in enumerate(given):
            if rank != self.rank:
                outputs[rank][:] = ray.get(one[0])

    def _carry(self, swap, calls, array, source):
        """One rank gives its array, and the others write it into theirs."""
        giver = self.rank == source
        flat = None if giver else _arrays.Flat(array)
        data = _arrays.flat(array) if giver else flat.data
        if array.nbytes <= SMALL:
            given = swap(calls, data.tobytes() if giver else None)
            if not giver:
                data[:] = np.frombuffer(_only(given), array.dtype)
        else:
            for piece in _pieces(data):
                given = swap(calls, (ray.put(piece),) if giver else None)
                if not giver:
                    piece[:] = ray.get(_only(given)[0])
        if not giver:
            flat.close()

    @contextmanager
    def _operation(self, ranks):
        """One operation of these ranks: gives `swap(calls, gives)`, which makes a round of it and
        returns what each rank gave.

        Whoever leaves it by an exception that others do not get tells them, so that they do not
        wait.
        """
        with self._locks[ranks]:
            if self._gave_up is not None:
                self._tell_others()
                raise RuntimeError(
                    f"the collective group {self.name!r} is broken: this rank, {self.rank}, gave "
                    f"up in the middle of a call ({self._gave_up})"
                )
            try:
                yield lambda calls, gives=None: self._swap(ranks, calls, gives)
            except _Trouble as trouble:
                raise RuntimeError(str(trouble)) from None
            except RayActorError:
                raise RuntimeError(
                    f"the collective group {self.name!r} is gone: the actor where its ranks meet "
                    "was killed"
                ) from None
            except BaseException as error:
                self._gave_up = repr(error)
                self._tell_others()
                raise

    def _tell_others(self):
        # Of a task that was cancelled this call may be cancelled too.
        self._meeting.give_up.remote(self._number, self.rank, self._gave_up)

    def _swap(self, ranks, calls, gives):
        key = ranks, next(self._counts[ranks])
        ref = self._meeting.meet.remote(self._number, key, ranks, self.rank, calls, gives)
        try:
            given = ray.get(ref, timeout=self.timeout_s)
        except GetTimeoutError:
            given = ray.get(self._meeting.late.remote(self._number, key, self.timeout_s))
            if given is None:  # it was answered just now
                given = ray.get(ref)
        if isinstance(given, str):
            raise _Trouble(given)
        return given


def _pieces(data):
    """Stretches of an array of at most PIECE bytes."""
    step = max(1, PIECE // data.itemsize)
    return [data[start : start + step] for start in range(0, len(data), step)]


def _only(given):
    return next(one for one in given if one is not None)
