"""Whether the process that made a call is still there."""

import os


def here() -> str:
    """The node and the process that this is."""
    import ray

    return f"{ray.get_runtime_context().get_node_id()} {os.getpid()}"


def is_gone(where: str, node: str) -> bool:
    """Whether a process of this node is dead; of another's it can't be said."""
    its_node, pid = where.split()
    if its_node != node:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
