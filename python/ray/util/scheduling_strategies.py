"""Where tasks and actors run: what the option `scheduling_strategy` takes besides "DEFAULT" and
"SPREAD".
"""

from ray._private.ids import NodeID
from ray.util.placement_group import PlacementGroup

DEFAULT_SCHEDULING_STRATEGY = "DEFAULT"
SPREAD_SCHEDULING_STRATEGY = "SPREAD"


class PlacementGroupSchedulingStrategy:
    """In a bundle of a placement group.

        PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)

    Attributes:
        placement_group: the group.
        placement_group_bundle_index: the bundle; -1 is any.
        placement_group_capture_child_tasks: whether what runs there submits its own tasks and actors
            into the group, too. None: as the task that submits it does.
    """

    def __init__(
        self,
        placement_group: PlacementGroup,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: "bool | None" = None,
    ):
        if placement_group is None:
            raise ValueError("`placement_group` needs to be an instance of PlacementGroup")
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """On one node, by its id.

        NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)

    Attributes:
        node_id: the node, as hexadecimal digits.
        soft: whether another node will do if that one is not there. Without it the task or actor
            fails with TaskUnschedulableError or ActorUnschedulableError.
    """

    def __init__(
        self,
        node_id: str,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ):
        self.node_id = node_id.hex() if isinstance(node_id, NodeID) else node_id
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        if not isinstance(self.node_id, str) or not self.node_id:
            raise ValueError(f"node_id must be the id of a node, not {node_id!r}")
        if any(letter not in "0123456789abcdefABCDEF" for letter in self.node_id):
            raise ValueError(f"node_id must have hexadecimal digits only, unlike {node_id!r}")
        if not isinstance(soft, bool):
            raise TypeError(f"soft must be a bool, not {type(soft).__name__}")


class _Values:
    _least = 1

    def __init__(self, *values):
        _check_values(type(self).__name__, values)
        self.values = list(values)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"


def _check_values(operator, values):
    if not values:
        raise ValueError(
            f"The variadic parameter of the {operator} operator must be a non-empty tuple: e.g. "
            f"{operator}(value1, value2, value3)."
        )
    for value in values:
        if not isinstance(value, str):
            raise ValueError(
                f"Type of value in position {values.index(value)} for the {operator} operator must "
                f"be str (e.g. {operator}(value1)) but got {value} of type {type(value)}."
            )


class In(_Values):
    """The node has the label with one of these values: `In("us-west", "us-east")`."""


class NotIn(_Values):
    """The node has not the label with one of these values."""


class Exists:
    """The node has the label, with any value."""

    def __repr__(self):
        return "Exists()"


class DoesNotExist:
    """The node has not the label."""

    def __repr__(self):
        return "DoesNotExist()"


class NodeLabelSchedulingStrategy:
    """On a node with these labels.

        NodeLabelSchedulingStrategy(hard={"region": In("us"), "gpu": Exists()})

    Attributes:
        hard: what the node's labels must be; a task or actor waits until there is such a node.
        soft: what is preferred, among nodes that fulfil `hard`. With one node there is no choice.
    """

    def __init__(self, hard: "dict | None" = None, *, soft: "dict | None" = None):
        self.hard = _checked("hard", hard)
        self.soft = _checked("soft", soft)
        if not self.hard and not self.soft:
            raise ValueError(
                "The `hard` and `soft` parameter of NodeLabelSchedulingStrategy cannot both be "
                "empty."
            )


def _checked(name, given):
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ValueError(
            f'The {name} parameter must be a map (e.g. {{"key1": In("value1")}}) but got '
            f"type {type(given)}."
        )
    for key, value in given.items():
        if not isinstance(key, str):
            raise ValueError(
                f"The map key of the {name} parameter must be of type str but got {key} of type "
                f"{type(key)}."
            )
        if not isinstance(value, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(
                f"The map value for key {key} of the {name} parameter must be one of the `In`, "
                f"`NotIn`, `Exists` or `DoesNotExist` operator but got {value} of type "
                f"{type(value)}."
            )
    return dict(given)
