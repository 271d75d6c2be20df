"""The functions of ray.util.collective: they check what they are given, and find the group."""

import threading

import ray
from ray._private import session
from ray._private.global_worker import global_worker
from ray.exceptions import RayActorError
from ray.util.collective import _arrays
from ray.util.collective._group import Group
from ray.util.collective._meeting import Meeting, where
from ray.util.collective.types import OURS, Backend, ReduceOp

_TIMEOUT_MS = 30_000

# Of this process, in the session of that epoch: its groups, and the meetings of those that it has
# declared, which live for as long as somebody has a handle.
_groups = {}
_declared = {}
_epoch = None
_lock = threading.RLock()


def nccl_available() -> bool:
    """Whether GPUs can take part: they can't."""
    return False


def gloo_available() -> bool:
    """Whether backend="gloo" can be used: always, and nothing need be installed for it."""
    return True


def is_group_initialized(group_name: str = "default") -> bool:
    """Whether this process has joined the group.

    if not collective.is_group_initialized("workers"):
        collective.init_collective_group(4, rank, group_name="workers")
    """
    return group_name in _here()


def init_collective_group(
    world_size: int,
    rank: int,
    backend: "str | None" = Backend.GLOO,
    group_name: str = "default",
    gloo_timeout: int = _TIMEOUT_MS,
) -> None:
    """Makes this process (an actor's, a task's or the driver's) one rank of a group.

        collective.init_collective_group(world_size=4, rank=2, backend="gloo")

    It does not wait for the others; the first operation does.

    Args:
        world_size: how many ranks the group has.
        rank: which of them this is, from 0.
        backend: "gloo"; GPUs ("nccl") are refused.
        group_name: a process may be in several groups.
        gloo_timeout: how many milliseconds an operation waits for the other ranks. Then the group
            is broken, on all ranks, and the error names those that did not come.
    """
    _check_backend(backend)
    _check_name(group_name)
    _check_timeout(gloo_timeout)
    _check_int("world_size", world_size, 1)
    _check_int("rank", rank, 0)
    if rank >= world_size:
        raise ValueError(f"rank {rank} is not below world_size {world_size}")
    _check_processes()
    with _lock:
        if group_name in _here():
            raise RuntimeError(
                f"Trying to initialize a group twice: this process is rank "
                f"{_groups[group_name].rank} of {group_name!r} already"
            )
        _groups[group_name] = _join(group_name, world_size, rank, gloo_timeout)


def create_collective_group(
    actors: list,
    world_size: int,
    ranks: "list[int]",
    backend: "str | None" = Backend.GLOO,
    group_name: str = "default",
    gloo_timeout: int = _TIMEOUT_MS,
) -> None:
    """Makes these actors a group: each joins it when it calls the first operation.

        collective.create_collective_group(workers, 4, [0, 1, 2, 3], backend="gloo")

    Args:
        actors: the handles.
        world_size: how many there are.
        ranks: the rank of each actor, in the order of `actors`.
        backend, group_name, gloo_timeout: as of init_collective_group.
    """
    _check_backend(backend)
    _check_name(group_name)
    _check_timeout(gloo_timeout)
    _check_int("world_size", world_size, 1)
    ids = _actor_ids(actors)
    if len(ranks) != len(ids):
        raise RuntimeError(
            f"Each actor should correspond to one rank: {len(ranks)} ranks and {len(ids)} actors "
            "were given"
        )
    if len(ids) != world_size:
        raise RuntimeError(f"world_size is {world_size}, and {len(ids)} actors were given")
    if sorted(ranks) != list(range(world_size)):
        raise RuntimeError(
            f"Ranks must be a permutation of 0 to {world_size - 1}, and are {list(ranks)}"
        )
    _check_processes()

    def declare(meeting):
        return ray.get(meeting.declare.remote(dict(zip(ids, ranks)), world_size, gloo_timeout))

    with _lock:
        meeting, is_new = _with_meeting(group_name, declare)
        if not is_new:
            raise RuntimeError(f"Trying to initialize a group twice: {group_name!r} is there")
        _here()
        _declared[group_name] = meeting


def destroy_collective_group(group_name: str = "default") -> None:
    """Leaves the group, and takes back what create_collective_group has declared in this process.

    Every rank calls it; a new group can have the name at once. Nothing happens if there is none.

        collective.destroy_collective_group("workers")
    """
    with _lock:
        group = _here().pop(group_name, None)
        meeting = _declared.pop(group_name, None)
        if meeting is not None:
            meeting.undeclare.remote()
    if group is not None:
        group.destroy()


def get_rank(group_name: str = "default") -> int:
    """This process's rank in the group; -1 if it is in none of that name.

    if collective.get_rank("workers") == 0:
        print("the first of them")
    """
    group = _here().get(group_name)
    return -1 if group is None else group.rank


def get_collective_group_size(group_name: str = "default") -> int:
    """How many ranks the group has; -1 if this process is in none of that name.

    share = len(rows) // collective.get_collective_group_size("workers")
    """
    group = _here().get(group_name)
    return -1 if group is None else group.world_size


def allreduce(tensor, group_name: str = "default", op: ReduceOp = ReduceOp.SUM) -> None:
    """Reduces the ranks' arrays into one, and writes that into each of them, in place.

        array = np.full(3, rank)
        collective.allreduce(array)  # of ranks 0 and 1: [1, 1, 1] on both

    All ranks get the same bits.
    """
    array = _arrays.as_output(tensor)
    _arrays.check_reduces(op, array)
    get_group_handle(group_name).allreduce(array, op)


def barrier(group_name: str = "default") -> None:
    """Returns when all ranks of the group have called it.

    collective.barrier("workers")       # in each of its members
    """
    get_group_handle(group_name).barrier()


def reduce(
    tensor, dst_rank: int = 0, group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Reduces the ranks' arrays into that of `dst_rank`, in place; the others stay as they are.

    collective.reduce(array, dst_rank=0)
    """
    array = _arrays.as_array(tensor)
    _arrays.check_reduces(op, array)
    group = get_group_handle(group_name)
    _check_rank(group, "dst_rank", dst_rank)
    if dst_rank == group.rank:
        _arrays.as_output(tensor)
    group.reduce(array, dst_rank, op)


def broadcast(tensor, src_rank: int = 0, group_name: str = "default") -> None:
    """Writes the array of `src_rank` into those of all other ranks, in place.

    collective.broadcast(weights, src_rank=0)
    """
    array = _arrays.as_array(tensor)
    group = get_group_handle(group_name)
    _check_rank(group, "src_rank", src_rank)
    if src_rank != group.rank:
        _arrays.as_output(tensor)
    group.broadcast(array, src_rank)


def allgather(tensor_list: list, tensor, group_name: str = "default") -> None:
    """Writes the array of rank i into `tensor_list[i]`, on all ranks.

    parts = [np.empty_like(array) for _ in range(4)]
    collective.allgather(parts, array)
    """
    array = _arrays.as_array(tensor)
    outputs = _list(tensor_list, _arrays.as_output)
    group = get_group_handle(group_name)
    _check_length(group, "allgather", outputs)
    for i, output in enumerate(outputs):
        _check_alike(f"tensor_list[{i}]", output, "the tensor", array)
    group.allgather(outputs, array)


def reducescatter(
    tensor, tensor_list: list, group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Reduces `tensor_list[i]` of all ranks, and writes that into rank i's `tensor`.

    collective.reducescatter(mine, [part_0, part_1, part_2, part_3])
    """
    output = _arrays.as_output(tensor)
    _arrays.check_reduces(op, output)
    arrays = _list(tensor_list, _arrays.as_array)
    group = get_group_handle(group_name)
    _check_length(group, "reducescatter", arrays)
    _check_alike("the tensor", output, f"tensor_list[{group.rank}]", arrays[group.rank])
    for i, array in enumerate(arrays):
        if array.dtype != output.dtype:
            raise RuntimeError(f"tensor_list[{i}] is {array.dtype}, and the tensor {output.dtype}")
    group.reducescatter(output, arrays, op)


def send(tensor, dst_rank: int, group_name: str = "default") -> None:
    """Sends the array to one rank, which calls `recv`; returns when that has come for it.

    collective.send(array, dst_rank=1)
    """
    array = _arrays.as_array(tensor)
    group = get_group_handle(group_name)
    _check_peer(group, "dst_rank", dst_rank)
    group.send(array, dst_rank)


def recv(tensor, src_rank: int, group_name: str = "default") -> None:
    """Writes what rank `src_rank` sends into the array, in place.

    array = np.empty(1000)
    collective.recv(array, src_rank=0)
    """
    array = _arrays.as_output(tensor)
    group = get_group_handle(group_name)
    _check_peer(group, "src_rank", src_rank)
    group.recv(array, src_rank)


def get_group_handle(group_name: str = "default") -> Group:
    """This process's side of the group, which it joins now if create_collective_group has declared
    it.
    """
    group = _here().get(group_name)
    if group is not None:
        return group
    _check_processes()
    with _lock:
        if group_name not in _here():
            _groups[group_name] = _join_declared(group_name)
        return _groups[group_name]


def _on_gpus(name):
    def refused(*args, **kwargs):
        raise NotImplementedError(
            f"{name} is not in Mobula, which has no collectives on GPUs: use "
            f"{name.removesuffix('_multigpu')} with an array or a CPU tensor"
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Refused: there are no collectives on GPUs."
    return refused


allreduce_multigpu = _on_gpus("allreduce_multigpu")
reduce_multigpu = _on_gpus("reduce_multigpu")
broadcast_multigpu = _on_gpus("broadcast_multigpu")
allgather_multigpu = _on_gpus("allgather_multigpu")
reducescatter_multigpu = _on_gpus("reducescatter_multigpu")
send_multigpu = _on_gpus("send_multigpu")
recv_multigpu = _on_gpus("recv_multigpu")


def _here():
    """This process's groups by name. Those of a session that has ended are forgotten."""
    global _epoch
    if _epoch != session.epoch:
        with _lock:
            _groups.clear()
            _declared.clear()
            _epoch = session.epoch
    return _groups


def _actor_name(group_name):
    return "collective:" + group_name


def _with_meeting(group_name, use):
    """The group's meeting, and what `use` makes of it. It ends with its last handle: one that was
    found may be about to end, and then a new one is made.
    """
    options = {"num_cpus": 0, "max_concurrency": 1_000_000, "get_if_exists": True}
    while True:
        meeting = (
            ray.remote(Meeting).options(name=_actor_name(group_name), **options).remote(group_name)
        )
        try:
            return meeting, use(meeting)
        except RayActorError:
            del meeting


def _join(group_name, world_size, rank, timeout_ms):
    def join(meeting):
        return ray.get(meeting.join.remote(rank, world_size, where()))

    meeting, number = _with_meeting(group_name, join)
    if isinstance(number, str):
        raise RuntimeError(number)
    return Group(group_name, world_size, rank, timeout_ms, meeting, number)


def _join_declared(group_name):
    declared = None
    try:
        meeting = ray.get_actor(_actor_name(group_name))
        declared = ray.get(meeting.declared.remote(ray.get_runtime_context().get_actor_id()))
    except (ValueError, RayActorError):
        pass
    if declared is None:
        raise RuntimeError(
            f"The collective group {group_name!r} is not initialized in the process: call "
            "init_collective_group here, or create_collective_group with this actor in the driver"
        )
    rank, world_size, timeout_ms = declared
    return _join(group_name, world_size, rank, timeout_ms)


def _actor_ids(actors):
    ids = []
    for actor in actors:
        if not isinstance(actor, ray.actor.ActorHandle):
            raise TypeError(f"actors must be handles of actors, not {type(actor).__name__}")
        ids.append(actor._actor_id.hex())
    if len(set(ids)) != len(ids):
        raise RuntimeError("an actor was given twice")
    return ids


def _check_backend(backend):
    backend = Backend(backend)
    if backend not in OURS:
        raise NotImplementedError(
            f"the backend {backend!r} is not in Mobula: use 'gloo', on arrays and CPU tensors"
        )


def _check_processes():
    if global_worker.mode == session.LOCAL_MODE:
        raise NotImplementedError(
            "collective groups need processes, and local_mode=True has only one: init without it"
        )


def _check_name(name):
    if not isinstance(name, str) or not name:
        raise ValueError(f"group_name {name!r} needs to be a string.")


def _check_timeout(timeout_ms):
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, (int, float)) or timeout_ms <= 0:
        raise ValueError(f"gloo_timeout must be a number of milliseconds, not {timeout_ms!r}")


def _check_int(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")


def _check_rank(group, name, rank):
    _check_int(name, rank, 0)
    if rank >= group.world_size:
        raise ValueError(f"{name} {rank} must be less than world size {group.world_size}")


def _check_peer(group, name, rank):
    _check_rank(group, name, rank)
    if rank == group.rank:
        raise RuntimeError(f"The {name} {rank} is self.")


def _list(tensors, read):
    if not isinstance(tensors, list):
        raise RuntimeError(
            f"tensor_list must be a list of tensors, and is {type(tensors).__name__}"
        )
    return [read(tensor, f"tensor_list[{i}]") for i, tensor in enumerate(tensors)]


def _check_length(group, name, arrays):
    if len(arrays) != group.world_size:
        raise RuntimeError(
            f"The length of {name}'s tensor_list must be equal to world_size: it has "
            f"{len(arrays)} tensors, and the group {group.world_size} ranks"
        )


def _check_alike(name, array, other_name, other):
    if array.dtype != other.dtype or array.shape != other.shape:
        raise RuntimeError(
            f"{name} is {array.dtype} {array.shape}, and {other_name} {other.dtype} {other.shape}"
        )
