"""Where tasks and actors are to run: what their options say of it, and what the running task hands
on to those that it submits.
"""

from ray import _core
from ray._private import labels, session

_NAMES = frozenset(("DEFAULT", "SPREAD"))


def current() -> "tuple | None":
    """The placement group that the running task or actor is in: (id, bundle, flags)."""
    return _group_of(_core.current_shape())


# By shape, of this session: a shape's number does not come again for long.
_known = {}


def _group_of(shape):
    if shape <= 1:  # nothing, and one CPU anywhere
        return None
    key = (session.epoch, shape)
    if key not in _known:
        if len(_known) > 1000:
            _known.clear()
        found = _core.shape_where(shape)
        _known[key] = (bytes.fromhex(found[0]), *found[1:]) if found else None
    return _known[key]


# In a worker: the group that the tasks go into that the running one submits; None: none.
captured = None


def note_shape(shape):
    """In a worker: its next task asks for this. What it submits itself may go into another group
    than what was submitted before.
    """
    global captured
    found = _group_of(shape)
    captures = found is not None and found[2] & _core.WHERE_CAPTURES
    group = found[0] if captures else None
    if group != captured:
        captured = group
        _core.set_capture(shape if captures else 0)


def check_strategy(name, value):
    """Checks the option scheduling_strategy where it is written."""
    from ray.util import scheduling_strategies as known

    if isinstance(value, str):
        if value in _NAMES:
            return value
        raise ValueError(
            f"Invalid scheduling strategy type {value!r}: there are 'DEFAULT', 'SPREAD' and the "
            "classes of ray.util.scheduling_strategies"
        )
    kinds = (
        known.PlacementGroupSchedulingStrategy,
        known.NodeAffinitySchedulingStrategy,
        known.NodeLabelSchedulingStrategy,
    )
    if not isinstance(value, kinds):
        raise TypeError(
            f"{name} must be 'DEFAULT', 'SPREAD' or one of ray.util.scheduling_strategies, not "
            f"{type(value).__name__}"
        )
    return value


def check_group(name, value):
    """Checks the option placement_group: a group, "default", or None for none."""
    from ray.util.placement_group import PlacementGroup

    if value != "default" and not isinstance(value, PlacementGroup):
        raise TypeError(f"{name} must be a PlacementGroup, not {type(value).__name__}")
    return value


def check_selector(name, value):
    """Checks the option label_selector."""
    labels.selector(value)
    return dict(value)


def check_fallback(name, value):
    """Checks the option fallback_strategy: a list of dicts, each with a label_selector."""
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list of dicts, not {type(value).__name__}")
    for one in value:
        if not isinstance(one, dict) or set(one) != {"label_selector"}:
            raise ValueError(
                f'{name} must have dicts with a "label_selector" and nothing else, not {one!r}'
            )
        labels.selector(one["label_selector"])
    return [dict(one) for one in value]


def where(options: dict, demands, name: str, environment: int, priority: int) -> "tuple | None":
    """What the core is told: (group's id or None, bundle, flags, selector or None, environment,
    priority); None: anywhere. `demands`: what it will ask for.
    """
    strategy = options.get("scheduling_strategy")
    group, index, captures = _group(options, strategy)
    selector = _selector(options, strategy)
    if group is None:
        flags = _core.WHERE_SPREAD if strategy == "SPREAD" else 0
        if not (selector or environment or priority or flags):
            return None
        return (None, -1, flags, selector, environment, priority)
    from ray.util.placement_group import check_fits, check_placement_group_index

    check_placement_group_index(group, index)
    for demand in demands:
        if demand:
            check_fits(group, index, demand, name)
    flags = _core.WHERE_CAPTURES if captures else 0
    return (group.id.binary(), index, flags, selector, environment, priority)


def _group(options, strategy):
    """The group, bundle, and whether what runs there hands the group on."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = options.get("placement_group", "default")
    index = options.get("placement_group_bundle_index")
    captures = options.get("placement_group_capture_child_tasks")
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        if group != "default" or index not in (None, -1):
            raise ValueError(
                "Placement groups should be specified via the scheduling_strategy option. The "
                "placement_group option is deprecated."
            )
        group = strategy.placement_group
        index = strategy.placement_group_bundle_index
        captures = strategy.placement_group_capture_child_tasks
    elif strategy is not None and group not in ("default", None):
        raise ValueError(
            "Placement groups should be specified via the scheduling_strategy option. The "
            "placement_group option is deprecated."
        )
    index = -1 if index is None else index
    if captures is None:
        captures = captured is not None
    if group == "default" and strategy is None and captured is not None:
        group = _handle(captured) if captures else None
    if group in ("default", None) or group.is_empty:
        if index != -1:
            raise ValueError("If placement group is not set, the value of bundle index must be -1.")
        return None, -1, False
    return group, index, captures


def _handle(id):
    from ray.util.placement_group import PlacementGroup, PlacementGroupID

    return PlacementGroup(PlacementGroupID(id))


def _selector(options, strategy):
    """The labels that the node must have; None if any node will do."""
    from ray.util import scheduling_strategies as known

    if isinstance(strategy, known.NodeAffinitySchedulingStrategy):
        return f"{'~' if strategy.soft else '!'}ray.io/node-id={strategy.node_id.lower()}"
    if isinstance(strategy, known.NodeLabelSchedulingStrategy):
        return "&".join([_term(key, value) for key, value in strategy.hard.items()]) or None
    first = options.get("label_selector")
    others = [one["label_selector"] for one in options.get("fallback_strategy") or ()]
    texts = [labels.selector(one or {}) for one in [first, *others]]
    if not all(texts):  # one of them asks for nothing
        return None
    return "|".join(texts)


def _term(key, operator):
    kind = type(operator).__name__
    if kind in ("In", "NotIn"):
        return labels.term(key, kind == "In", operator.values)
    labels.selector({key: ""})
    return ("+" if kind == "Exists" else "-") + key
