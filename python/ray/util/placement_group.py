"""Placement groups: bundles of resources that are set aside together, for tasks and actors that ask
to run in them.

    group = ray.util.placement_group([{"CPU": 1}, {"CPU": 1, "GPU": 1}])
    ray.get(group.ready())
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=1)
    ray.get(f.options(num_gpus=1, scheduling_strategy=strategy).remote())
    ray.util.remove_placement_group(group)
"""

import struct

from ray import _core
from ray._private import labels, options, session
from ray._private.errors import NoSuchName
from ray._private.ids import PlacementGroupID
from ray._private.later import not_yet

VALID_PLACEMENT_GROUP_STRATEGIES = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")  # as the core counts them
_UNITS = 10000  # of a resource, as the core counts
_MOST = {"CPU": 2**40}
_NOWHERE = 2**32 - 1


class PlacementGroup:
    """A handle of a placement group. It can be passed to tasks and actors, and keeps nothing alive:
    a group lives until it is removed or its job ends.
    """

    __slots__ = ("_bundles", "_ready", "id")

    def __init__(self, id: PlacementGroupID, bundle_cache: "list[dict] | None" = None):
        self.id = id
        self._bundles = bundle_cache
        self._ready = None

    @staticmethod
    def empty() -> "PlacementGroup":
        """The handle of no group: what `placement_group=None` stands for in options."""
        return PlacementGroup(PlacementGroupID.nil(), [])

    @property
    def is_empty(self) -> bool:
        """Whether this is the handle of no group."""
        return self.id.is_nil()

    def ready(self) -> "_core.ObjectRef":
        """A reference to this handle that is there once all bundles are set aside:
        `ray.get(group.ready())` waits for that. It raises TaskPlacementGroupRemoved if the group is
        removed before.
        """
        if self._ready is None:
            from ray.exceptions import OwnerDiedError

            try:
                self._ready = _core.restore_group(self.id.binary())
            except OwnerDiedError:  # it was removed, and nobody kept this
                self._ready = _failing(self)
        return self._ready

    def wait(self, timeout_seconds: "float | int" = 30) -> bool:
        """Waits until all bundles are set aside; False if they are not after so many seconds, or the
        group was removed.
        """
        found, _ = _core.wait([self.ready()], num_returns=1, timeout=timeout_seconds)
        return bool(found) and _row(self)[4] in ("CREATED", "RESCHEDULING")

    @property
    def bundle_specs(self) -> "list[dict]":
        """What each bundle has."""
        if self._bundles is None:
            self._bundles = [dict(bundle) for bundle in _row(self)[10]]
        return self._bundles

    @property
    def bundle_count(self) -> int:
        """How many bundles there are."""
        return len(self.bundle_specs)

    def __eq__(self, other):
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __repr__(self):
        return f"PlacementGroup({self.id.hex()})"

    def __reduce__(self):
        return PlacementGroup, (self.id, self._bundles)


def placement_group(
    bundles: "list[dict[str, float]]",
    strategy: str = "PACK",
    name: str = "",
    lifetime: "str | None" = None,
    _max_cpu_fraction_per_node: "float | None" = None,
    _soft_target_node_id: "str | None" = None,
    bundle_label_selector: "list[dict[str, str]] | None" = None,
) -> PlacementGroup:
    """Asks for bundles of resources that are set aside together, or not at all. Returns at once;
    `ready()` of the handle tells when they are.

        group = ray.util.placement_group([{"CPU": 2}] * 2, strategy="PACK")
        ray.get(group.ready(), timeout=10)

    Args:
        bundles: what each bundle has, by the names of resources.
        strategy: "PACK" and "SPREAD": on as few nodes as can be, or as many; "STRICT_PACK": on one;
            "STRICT_SPREAD": each bundle on a node of its own.
        name: by which `ray.util.get_placement_group` finds it in this namespace.
        lifetime: None: it is removed at the end of its job. "detached": only by
            `ray.util.remove_placement_group`.
        bundle_label_selector: for each bundle the labels that its node must have, as the option
            label_selector of tasks has them.
    """
    if _max_cpu_fraction_per_node is not None or _soft_target_node_id is not None:
        raise not_yet("_max_cpu_fraction_per_node and _soft_target_node_id")
    key = _key(bundles, strategy, lifetime, bundle_label_selector)
    if not isinstance(name, str):
        raise TypeError(f"the name of a placement group must be a str, not {type(name).__name__}")
    spec = _specs.get(key)
    if spec is None:
        spec = _make_spec(bundles, strategy, lifetime, bundle_label_selector, key)
    from ray._private import worker

    worker.start_if_needed()
    naming = (session.namespace, options.name("name", name)) if name else None
    ready = _core.create_group(spec[0], naming)
    group = PlacementGroup(PlacementGroupID(ready.binary()), [dict(bundle) for bundle in spec[1]])
    group._ready = ready
    return group


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Removes a group: what runs in it is killed, what waits for it fails with
    TaskPlacementGroupRemoved or ActorPlacementGroupRemoved, and its resources go back to the node.

        ray.util.remove_placement_group(group)
    """
    _check(placement_group)
    from ray._private import worker

    worker.start_if_needed()
    _core.remove_group(placement_group.id.binary())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group of this name, in this job's namespace.

        ray.util.placement_group([{"CPU": 1}], name="mine", lifetime="detached")
        group = ray.util.get_placement_group("mine")

    Raises:
        ValueError: there is none.
    """
    if not isinstance(placement_group_name, str) or not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    from ray._private import worker

    worker.start_if_needed()
    try:
        ready = _core.find_group(session.namespace, placement_group_name)
    except NoSuchName:
        raise ValueError(
            f"Failed to look up placement group with name: {placement_group_name} (in the "
            f"namespace {session.namespace!r})"
        ) from None
    group = PlacementGroup(PlacementGroupID(ready.binary()))
    group._ready = ready
    return group


def placement_group_table(placement_group: "PlacementGroup | None" = None) -> dict:
    """What is known of a group; without one of all, by their ids. The last thousand that were
    removed are among them.

        group = ray.util.placement_group([{"CPU": 1}], name="mine")
        print(ray.util.placement_group_table(group)["state"])
    """
    from ray._private import worker

    worker.start_if_needed()
    if placement_group is not None:
        _check(placement_group)
        row = _row(placement_group, missing=None)
        return {} if row is None else _described(row)
    described = map(_described, _core.groups(None))
    return {found["placement_group_id"]: found for found in described}


def get_current_placement_group() -> "PlacementGroup | None":
    """The group that the running task or actor is in; None outside of one.

    @ray.remote
    def f():
        return ray.util.get_current_placement_group().bundle_count
    """
    from ray._private import placing

    found = placing.current() if _core.is_connected() else None
    return None if found is None else PlacementGroup(PlacementGroupID(found[0]))


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """Raises ValueError unless the group has such a bundle; -1 is any."""
    if placement_group.is_empty:
        if bundle_index != -1:
            raise ValueError("If placement group is not set, the value of bundle index must be -1.")
    elif not -1 <= bundle_index < placement_group.bundle_count:
        raise ValueError(
            f"placement group bundle index {bundle_index} is invalid. Valid placement group "
            f"indexes: 0-{placement_group.bundle_count - 1}"
        )


def check_fits(placement_group: PlacementGroup, bundle_index: int, demand: dict, name: str):
    """Raises ValueError unless a bundle, alone, has what is asked for."""
    specs = placement_group.bundle_specs
    for bundle in specs if bundle_index < 0 else [specs[bundle_index]]:
        if all(bundle.get(resource, 0) >= amount for resource, amount in demand.items()):
            return
    raise ValueError(
        f"Cannot schedule {name} with the placement group because the resource request {demand} "
        f"cannot fit into any bundles for the placement group, {specs}."
    )


# ---- what the core is given ----

# By what was asked for: the bytes, and the bundles.
_specs = {}


def _key(bundles, strategy, lifetime, selectors):
    """Names one of _specs; None: it is not one yet, and may be wrong."""
    try:
        return (
            tuple([tuple(bundle.items()) for bundle in bundles]),
            strategy,
            lifetime,
            selectors and tuple([tuple(sorted(selector.items())) for selector in selectors]),
            type(bundles) is list,
        )
    except (AttributeError, TypeError):
        return None


def _checked_bundles(bundles):
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError("Bundles must be a non-empty list of resource dictionaries.")
    for bundle in bundles:
        if not isinstance(bundle, dict):
            raise ValueError(
                f"Bundles must be a list of resource dictionaries, and {bundle!r} is no dictionary."
            )
        for resource, amount in bundle.items():
            if not isinstance(resource, str) or not resource or "\0" in resource:
                raise ValueError(f"{resource!r} is no name of a resource. Bundles: {bundles}")
            if isinstance(amount, bool) or not isinstance(amount, (int, float)):
                raise ValueError(f"Bundle resource values must be numbers. Bundles: {bundles}")
            options.quantity("num_gpus" if resource == "GPU" else resource, amount)
        if not any(bundle.values()):
            raise ValueError(
                "Bundles cannot be an empty dictionary or resources with only 0 values. Bundles: "
                f"{bundles}"
            )
    return [{name: float(amount) for name, amount in bundle.items()} for bundle in bundles]


def _selectors(bundles, given):
    if given is None or given == []:
        return [""] * len(bundles)
    if not isinstance(given, list):
        raise ValueError(
            f"Placement group bundle_label_selector must be a list, got {type(given)}."
        )
    if len(given) != len(bundles):
        raise ValueError(
            f"Invalid bundle label selector {given}. The length of `bundle_label_selector` should "
            "equal the length of `bundles`."
        )
    return [labels.selector(one) for one in given]


def _units(name, amount):
    return min(int(amount * _UNITS + 0.5), _MOST.get(name, 2**60))


def _make_spec(bundles, strategy, lifetime, selectors, key):
    checked = _checked_bundles(bundles)
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"Invalid strategy type {strategy}. Supported strategies are: "
            f"{sorted(VALID_PLACEMENT_GROUP_STRATEGIES)}"
        )
    if lifetime not in (None, "detached"):
        raise ValueError(
            'placement group `lifetime` argument must be either `None` or "detached", not '
            f"{lifetime!r}"
        )
    parts = []
    for bundle, selector in zip(checked, _selectors(checked, selectors)):
        lines = [
            struct.pack("<Q", _units(name, amount)) + name.encode() + b"\0"
            for name, amount in bundle.items()
        ]
        text = b"".join(lines) + selector.encode() + b"\0"
        parts.append(struct.pack("<II", len(lines), len(text)) + text)
    value, at = _value(checked)
    head = struct.pack(
        "<IIIIII",
        _STRATEGIES.index(strategy),
        lifetime == "detached",
        len(checked),
        len(value),
        at,
        0,
    )
    spec = (head + b"".join(parts) + value, checked)
    if key is not None:
        if len(_specs) >= 256:
            _specs.clear()
        _specs[key] = spec
    return spec


def _value(bundles):
    """The value of the group's reference: its handle. The core writes the id into it, which it knows
    only when the group is made.
    """
    from _pickle import dumps

    blank = b"\xfd" * PlacementGroupID.size()
    stream = dumps(PlacementGroup(PlacementGroupID(blank), bundles), 5)
    at = stream.find(blank)
    head = struct.pack("<IIQ", 0, 0, len(stream))
    return head + stream, len(head) + at if at >= 0 else _NOWHERE


# ---- what the core knows ----

_MISSING = object()


def _check(group):
    if not isinstance(group, PlacementGroup):
        raise TypeError(f"a PlacementGroup is wanted, not {type(group).__name__}")
    if group.is_empty:
        raise ValueError("this is the handle of no placement group")


def _row(group, missing=_MISSING):
    wanted = group.id.hex()
    for row in _core.groups(group.id.binary()):
        if row[0] == wanted:
            return row
    if missing is _MISSING:
        raise ValueError(f"nothing is known of the placement group {wanted}: it was removed")
    return missing


def _described(row):
    id, name, _, strategy, state, possible, _, _, made, placed, bundles, nodes = row
    latency = (placed - made) / 1e6 if placed else 0
    queued = "QUEUED" if possible else "INFEASIBLE"
    return {
        "placement_group_id": id,
        "name": name,
        "bundles": {index: dict(bundle) for index, bundle in enumerate(bundles)},
        "bundles_to_node_id": dict(enumerate(nodes)),
        "strategy": strategy,
        "state": state,
        "stats": {
            "end_to_end_creation_latency_ms": latency,
            "scheduling_latency_ms": latency,
            "scheduling_attempt": int(state == "CREATED"),
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": {"CREATED": "FINISHED", "REMOVED": "REMOVED"}.get(state, queued),
        },
    }


def _failing(group):
    """A reference that fails as the group's own did, which is gone."""
    from ray import remote
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    strategy = PlacementGroupSchedulingStrategy(PlacementGroup(group.id, [{}]))
    check = remote(_nothing).options(num_cpus=0, scheduling_strategy=strategy)
    return check.remote()


def _nothing():
    return None
