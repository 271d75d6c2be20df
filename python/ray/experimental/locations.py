"""Where objects are: `ray.experimental.get_object_locations`."""

import ray

__all__ = ["get_object_locations", "get_local_object_locations"]


def get_object_locations(obj_refs: list, timeout_ms: int = -1) -> dict:
    """Of each reference, a dict: "node_ids", the nodes that have the object, none if it is not made
    yet; "object_size", its bytes, or None; "did_spill", whether it is on disk.

        ref = ray.put(b"x" * 1000)
        print(ray.experimental.get_object_locations([ref])[ref]["object_size"])

    It raises TimeoutError after `timeout_ms` milliseconds without an answer, -1: never.
    """
    from ray.util.state import objects

    if not ray.is_initialized():
        raise RuntimeError("Ray hasn't been initialized: call ray.init() before")
    node = ray.get_runtime_context().get_node_id()
    _, states = objects(timeout=None if timeout_ms < 0 else timeout_ms / 1000)
    known = {state.object_id: state for state in states}
    found = {}
    for ref in obj_refs:
        if not isinstance(ref, ray.ObjectRef):
            raise TypeError(f"get_object_locations takes references, not {type(ref).__name__}")
        state = known.get(ref.hex())
        there = state is not None and state.state != "PENDING"
        found[ref] = {
            "node_ids": [node] if there else [],
            "object_size": state.object_size if there else None,
            "did_spill": there and state.state == "SPILLED",
        }
    return found


def get_local_object_locations(obj_refs: list) -> dict:
    """The same, of what this process knows: there is one node.

    print(ray.experimental.get_local_object_locations([ref]))
    """
    return get_object_locations(obj_refs)
