"""What is going on in a session: its jobs, its objects, and who holds them."""

from dataclasses import asdict, dataclass, fields

from ray._private.later import no_attribute

__all__ = [
    "JobState",
    "ObjectState",
    "PlacementGroupState",
    "get_placement_group",
    "list_jobs",
    "list_objects",
    "list_placement_groups",
]


def __getattr__(name):
    raise no_attribute(__name__, name)


class _State:
    """What all kinds of rows have in common."""

    def __getitem__(self, name):
        if name not in (field.name for field in fields(self)):
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name, default=None):
        return getattr(self, name, default)

    def asdict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class JobState(_State):
    """A driver that uses, or has used, the node."""

    job_id: str
    submission_id: "str | None"
    """None: such jobs are not there yet."""
    entrypoint: str
    type: str
    status: str
    """RUNNING, SUCCEEDED, or FAILED: the driver was killed, or hung up without a word."""
    message: str
    error_type: "str | None"
    driver_info: dict
    start_time: int
    """Milliseconds since 1970, and so is the end."""
    end_time: "int | None"
    namespace: str


@dataclass(frozen=True)
class ObjectState(_State):
    """One reason for which an object is there. An object that is held for several has as many of
    these.
    """

    object_id: str
    object_size: int
    """Bytes; -1 while its task is not done."""
    state: str
    """IN_MEMORY, SPILLED or PENDING."""
    reference_type: str
    """LOCAL_REFERENCE, PINNED_IN_MEMORY, USED_BY_PENDING_TASK, CAPTURED_IN_OBJECT, ACTOR_HANDLE,
    LOADED_FUNCTION or USED_BY_LINEAGE."""
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


@dataclass(frozen=True)
class PlacementGroupState(_State):
    """A placement group."""

    placement_group_id: str
    name: str
    creator_job_id: str
    state: str
    """PENDING, CREATED or REMOVED."""
    bundles: list
    is_detached: bool
    strategy: str


def list_placement_groups(
    address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True
) -> list:
    """The placement groups of the node, also the last ones that were removed; arguments as for
    list_objects.

        print([group.state for group in ray.util.state.list_placement_groups()])
    """
    _check(limit, timeout)
    return _chosen(PlacementGroupState, _groups(address, timeout), filters, limit)


def get_placement_group(id: str, address=None, timeout=30, _explain=False):
    """The placement group of this id; None if there is none.

    group = ray.util.placement_group([{"CPU": 1}])
    print(ray.util.state.get_placement_group(group.id.hex()).state)
    """
    _check(1, timeout)
    found = [group for group in _groups(address, timeout) if group.placement_group_id == id]
    return found[0] if found else None


def _groups(address, timeout):
    from ray import _core
    from ray._private import sessions

    rows = _core.observe(sessions.find_socket(address), _core.QUERY_GROUPS, 0, timeout)
    for id, name, _, strategy, state, _, detached, job, _, _, bundles, _ in rows:
        yield PlacementGroupState(
            placement_group_id=id,
            name=name,
            creator_job_id=job.to_bytes(4, "little").hex(),
            state=state,
            bundles=[
                {"bundle_id": str(index), "resources": dict(bundle)}
                for index, bundle in enumerate(bundles)
            ],
            is_detached=detached,
            strategy=strategy,
        )


def list_jobs(
    address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True
) -> list:
    """The jobs of the node, also those that have ended, newest first; arguments as for
    list_objects.

        print([job.status for job in ray.util.state.list_jobs()])
    """
    from ray import _core
    from ray._private import sessions

    _check(limit, timeout)
    rows = _core.observe(sessions.find_socket(address), _core.QUERY_JOBS, 0, timeout)
    return _chosen(JobState, (_job(*row) for row in reversed(rows) if not row[4]), filters, limit)


def _job(number, pid, start, end, detached, failed, namespace, entrypoint):
    from ray._private.services import LOOPBACK

    job_id = number.to_bytes(4, "little").hex()
    return JobState(
        job_id=job_id,
        submission_id=None,
        entrypoint=entrypoint,
        type="DRIVER",
        status="RUNNING" if end == 0 else "FAILED" if failed else "SUCCEEDED",
        message="its driver was killed, or hung up without a word" if failed else "",
        error_type=None,
        driver_info={"id": job_id, "node_ip_address": LOOPBACK, "pid": str(pid)},
        start_time=start,
        end_time=end or None,
        namespace=namespace,
    )


def list_objects(
    address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True
) -> list:
    """The objects of the session, and who holds each for what reason.

        for found in ray.util.state.list_objects(filters=[("type", "=", "Driver")]):
            print(found.object_id)

    Args:
        address: the folder of a session; by default this process's own, else the newest of this user.
        filters: tuples of a field's name, "=" or "!=", and a value; all of them have to be met.
        limit: how many are given at most.
        timeout: seconds for the answer, after which it is a TimeoutError; None: for ever.
        detail, raise_on_missing_output: make no difference, since every field is always given
            and none is ever missing.
    """
    _check(limit, timeout)
    states = objects(address, 1 << 62 if filters else limit, timeout)[1]
    return _chosen(ObjectState, states, filters, limit)


def _check(limit, timeout):
    if isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0:
        raise ValueError(f"limit must be a positive int, not {limit!r}")
    if isinstance(timeout, (int, float)) and timeout < 0:
        raise ValueError(f"timeout must not be negative, and is {timeout}")


def _chosen(kind, states, filters, limit) -> list:
    """The first `limit` of those that meet the filters."""
    found = filter(_matcher(kind, filters or []), states)
    return [state for _, state in zip(range(limit), found)]


def objects(address=None, limit=1 << 62, timeout=30) -> tuple:
    """How many objects there are, and the states of the first `limit`; waits `timeout` seconds for
    the answer.
    """
    from ray import _core
    from ray._private import sessions
    from ray._private.services import LOOPBACK

    count, node, rows = _core.observe(
        sessions.find_socket(address), _core.QUERY_OBJECTS, limit, timeout
    )
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


def _matcher(kind, filters):
    names = {field.name for field in fields(kind)}
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
