"""What is going on in a session: its objects, and who holds them."""

from dataclasses import asdict, dataclass, fields

from ray._private.later import no_attribute

__all__ = ["ObjectState", "list_objects"]


def __getattr__(name):
    raise no_attribute(__name__, name)


@dataclass(frozen=True)
class ObjectState:
    """One reason for which an object is there. An object that is held for several has as many of
    these.
    """

    object_id: str
    object_size: int
    """Bytes; -1 while its task is not done."""
    state: str
    """IN_MEMORY, SPILLED or PENDING."""
    reference_type: str
    """LOCAL_REFERENCE, PINNED_IN_MEMORY, USED_BY_PENDING_TASK, CAPTURED_IN_OBJECT, ACTOR_HANDLE
    or LOADED_FUNCTION."""
    pid: int
    """The process that holds it; 0 if a task or an object does."""
    type: str
    """What that process is: Driver or Worker."""
    count: int
    """How many tasks or objects hold it."""
    owner_pid: int
    """The process that made it; 0 if it is gone."""
    call_site: str
    """Where it was made, if RAY_record_ref_creation_sites=1 was set when the session began."""
    ip: str

    def __getitem__(self, name):
        if name not in (field.name for field in fields(self)):
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name, default=None):
        return getattr(self, name, default)

    def asdict(self) -> dict:
        return asdict(self)


def list_objects(
    address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True
) -> list:
    """The objects of the session, and who holds each for what reason.

    Args:
        address: the folder of a session; by default this process's own, else the newest of this user.
        filters: tuples of a field's name, "=" or "!=", and a value; all of them have to be met.
        limit: how many are given at most.
        timeout: seconds for the answer, after which it is a TimeoutError; None: for ever.
        detail, raise_on_missing_output: make no difference, since every field is always given
            and none is ever missing.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0:
        raise ValueError(f"limit must be a positive int, not {limit!r}")
    if isinstance(timeout, (int, float)) and timeout < 0:
        raise ValueError(f"timeout must not be negative, and is {timeout}")
    matches = _matcher(filters or [])
    found = (
        state
        for state in objects(address, 1 << 62 if filters else limit, timeout)[1]
        if matches(state)
    )
    return [state for _, state in zip(range(limit), found)]


def objects(address=None, limit=1 << 62, timeout=30) -> tuple:
    """How many objects there are, and the states of the first `limit`; waits `timeout` seconds for
    the answer.
    """
    from ray import _core
    from ray._private import sessions
    from ray._private.services import LOOPBACK

    count, node, rows = _core.observe(sessions.find_socket(address), limit, timeout)
    return count, [
        ObjectState(
            object_id=f"{node & 0xFFFFFFFFFFFFFFFF:016x}{slot:08x}{generation:016x}",
            object_size=size,
            state=state,
            reference_type=reason,
            pid=pid,
            type=kind,
            count=times,
            owner_pid=owner,
            call_site=site,
            ip=LOOPBACK,
        )
        for slot, generation, size, state, owner, reason, pid, kind, times, site in rows
    ]


def _matcher(filters):
    names = {field.name for field in fields(ObjectState)}
    for entry in filters:
        if not isinstance(entry, (tuple, list)) or len(entry) != 3:
            raise ValueError(f'a filter is (name, "=" or "!=", value), not {entry!r}')
        if entry[0] not in names:
            raise ValueError(
                f"there is no field {entry[0]!r} to filter by; there are {', '.join(sorted(names))}"
            )
        if entry[1] not in ("=", "!="):
            raise ValueError(f'a filter compares by "=" or "!=", not {entry[1]!r}')

    def matches(state):
        return all((str(state[name]) == str(value)) == (how == "=") for name, how, value in filters)

    return matches
