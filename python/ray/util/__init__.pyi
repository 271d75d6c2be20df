"""The package, as checkers and editors see it: what arrives late at run time is named here."""

from ray._private.names import (
    list_named_actors as list_named_actors,
)
from ray._private.object_ref import (
    cancel_waited as cancel_waited,
)
from ray._private.replay import (
    replay as replay,
)
from ray._private.services import (
    get_node_instance_id as get_node_instance_id,
    get_node_ip_address as get_node_ip_address,
)
from ray.util import (
    accelerators as accelerators,
    actor_group as actor_group,
    actor_pool as actor_pool,
    check_serialize as check_serialize,
    collective as collective,
    dask as dask,
    debug as debug,
    helpers as helpers,
    joblib as joblib,
    metrics as metrics,
    multiprocessing as multiprocessing,
    queue as queue,
    scheduling_strategies as scheduling_strategies,
    serialization as serialization,
    state as state,
)
from ray.util.actor_group import (
    ActorGroup as ActorGroup,
)
from ray.util.actor_pool import (
    ActorPool as ActorPool,
)
from ray.util.check_serialize import (
    inspect_serializability as inspect_serializability,
)
from ray.util.debug import (
    disable_log_once_globally as disable_log_once_globally,
    enable_periodic_logging as enable_periodic_logging,
    log_once as log_once,
)
from ray.util.helpers import (
    as_completed as as_completed,
    map_unordered as map_unordered,
)
from ray.util.placement_group import (
    get_current_placement_group as get_current_placement_group,
    get_placement_group as get_placement_group,
    placement_group as placement_group,
    placement_group_table as placement_group_table,
    remove_placement_group as remove_placement_group,
)
from ray.util.serialization import (
    deregister_serializer as deregister_serializer,
    register_serializer as register_serializer,
)
