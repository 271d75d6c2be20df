"""Graphs of calls that are written down first and executed later, as often as one likes.

import ray
from ray.dag import InputNode

with InputNode() as x:
    graph = add.bind(double.bind(x), x)
print(ray.get(graph.execute(3)))  # double(3) + 3
"""

from ray.dag.class_node import ClassMethodNode, ClassNode
from ray.dag.compiled_dag_node import CompiledDAG
from ray.dag.dag_node import DAGNode
from ray.dag.function_node import FunctionNode
from ray.dag.input_node import DAGInputData, InputAttributeNode, InputNode
from ray.dag.output_node import MultiOutputNode

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "CompiledDAG",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]
