"""Collective operations of actors and tasks on numpy arrays and torch's tensors: `allreduce`,
`broadcast` and the like.

    from ray.util import collective

    @ray.remote
    class Worker:
        def __init__(self, rank):
            collective.init_collective_group(4, rank, backend="gloo")

        def step(self):
            gradient = np.random.rand(1_000_000)
            collective.allreduce(gradient)  # in place: now it is the sum of all four
            return gradient

    workers = [Worker.remote(rank) for rank in range(4)]
    ray.get([worker.step.remote() for worker in workers])

Arrays go through the object store, at memory's speed; backend="gloo" means that (_group.py). A rank
that dies breaks the group: the others get an error that names it (_meeting.py).
"""

from ray.util.collective.collective import (
    allgather,
    allgather_multigpu,
    allreduce,
    allreduce_multigpu,
    barrier,
    broadcast,
    broadcast_multigpu,
    create_collective_group,
    destroy_collective_group,
    get_collective_group_size,
    get_group_handle,
    get_rank,
    gloo_available,
    init_collective_group,
    is_group_initialized,
    nccl_available,
    recv,
    recv_multigpu,
    reduce,
    reduce_multigpu,
    reducescatter,
    reducescatter_multigpu,
    send,
    send_multigpu,
)
from ray.util.collective.types import Backend, ReduceOp

__all__ = [
    "Backend",
    "ReduceOp",
    "allgather",
    "allgather_multigpu",
    "allreduce",
    "allreduce_multigpu",
    "barrier",
    "broadcast",
    "broadcast_multigpu",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_group_handle",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_group_initialized",
    "nccl_available",
    "recv",
    "recv_multigpu",
    "reduce",
    "reduce_multigpu",
    "reducescatter",
    "reducescatter_multigpu",
    "send",
    "send_multigpu",
]
