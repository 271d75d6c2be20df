"""Actors by name: `ray.get_actor`, and what a named actor's maker leaves for those who find it."""

from _weakref import ref  # the module around it takes a millisecond to import

from ray import _core
from ray._private import session
from ray._private.errors import NoSuchName

# What this process has found or made, by namespace and name: the mark of that time, and a handle
# that may be gone. It holds no actor, for one without a handle ends.
_known = {}


def mark():
    """What a name was found under holds while this stays the same. Take it before you ask."""
    return session.epoch, _core.names_dropped()


def remember(name, namespace, handle, mark):
    """The actor had this name, at a time after the mark."""
    if len(_known) > 1000:
        _known.clear()
    _known[namespace or session.namespace, name] = (mark, ref(handle))


def _remembered(name, namespace):
    """A handle that this process has of the actor; None: the daemon has to be asked."""
    known = _known.get((namespace or session.namespace, name))
    if known is None or known[0] != mark() or known[0][1] is None:
        return None
    return known[1]()


def naming(options: dict, handle: type, *args) -> "tuple | None":
    """What the core is told of a new actor's name and lifetime; None if there is nothing to tell.

    Whoever finds the actor gets `handle(reference, *args)`; that is kept as an object of the store,
    for as long as the actor has its name.
    """
    name = options.get("name")
    detached = options.get("lifetime") == "detached"
    if name is None and not detached:
        return None
    space = options.get("namespace") or session.namespace
    return (space, name or "", detached, _core.put((handle, args)) if name else None)


def find(name: str, namespace: "str | None" = None):
    """The handle of the actor; None if there is no such actor."""
    found = _remembered(name, namespace)
    if found is not None:
        return found
    before = mark()
    try:
        reference, info = _core.find_actor(namespace or session.namespace, name)
    except NoSuchName:
        return None
    handle, args = _core.get(info)
    found = handle(reference, *args)
    remember(name, namespace, found, before)
    return found


def get_actor(name: str, namespace: "str | None" = None):
    """The handle of the actor that was made with this name.

        Counter.options(name="counter", lifetime="detached").remote()
        counter = ray.get_actor("counter")

    Args:
        name: as it was given by `name=`.
        namespace: where the name holds; by default this job's own namespace.

    Raises:
        ValueError: there is no such actor, or it is dead.
    """
    from ray._private import options, worker

    if not isinstance(name, str) or not name:
        raise ValueError(f"ray.get_actor takes the name of an actor, not {name!r}")
    options.for_actor({"name": name, "namespace": namespace})
    worker.start_if_needed()
    found = find(name, namespace)
    if found is not None:
        return found
    where = namespace or session.namespace
    others = [row[0] for row in _core.actor_names(True) if row[1] == name]
    raise ValueError(
        f"there is no actor named {name!r} in the namespace {where!r}"
        + (f"; there is one in {', '.join(map(repr, others))}: pass namespace=" if others else "")
    )


def list_named_actors(all_namespaces: bool = False) -> list:
    """The names of all actors of the cluster that have one: of this job's namespace, or, as dicts
    with "namespace" and "name", of all.

        print(ray.util.list_named_actors())                         # ["counter"]
        print(ray.util.list_named_actors(all_namespaces=True))      # [{"name": ..., "namespace": ...}]
    """
    from ray._private import worker

    worker.start_if_needed()
    rows = sorted(_core.actor_names(bool(all_namespaces)))
    if all_namespaces:
        return [{"name": name, "namespace": space} for space, name, *_ in rows]
    return [name for _, name, *_ in rows]


def name_of(actor_id: str) -> str:
    """The name of an actor by its id; "" if it has none."""
    for _, name, slot, generation, home in _core.actor_names(True):
        if actor_id == f"{home}{slot:08x}{generation:016x}":
            return name
    return ""
