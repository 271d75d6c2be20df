"""Names that libraries look for where Ray's compiled module has them."""

from ray._core import ObjectRef, ObjectRefGenerator
from ray._private.generators import DynamicObjectRefGenerator
from ray._private.ids import ActorID, JobID, NodeID, TaskID, WorkerID

ObjectID = ObjectRef
StreamingObjectRefGenerator = ObjectRefGenerator  # its name before Ray 2.8

__all__ = [
    "ActorID",
    "DynamicObjectRefGenerator",
    "JobID",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "StreamingObjectRefGenerator",
    "TaskID",
    "WorkerID",
]
