"""Remove collectives whose groups have a single device. JAX emits them if all manual axes have size 1.

before   %y = all_reduce %x, in the groups [[0], [1]]
after    %x
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import rewired
from meshgen.mesh import Mesh

_IDENTITIES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_slice", "broadcast")


def is_alone(node: Node, mesh: Mesh) -> bool:
    """Whether a collective or device query involves no other device: all its groups have size 1, or each device sends
    to itself.
    """
    if node.op == "permute_pairs":
        pairs = node.attrs.pairs
        return all(source == target for source, target in pairs) and len(pairs) in (0, mesh.size)
    return node.op in (*_IDENTITIES, "process_index") and all(mesh.axis(axis).size == 1 for axis in node.attrs.axes)


def without_groups_of_one(graph: Graph, mesh: Mesh) -> Graph:
    """Return the graph and its regions without the nodes for which `is_alone` holds.

    Uses of their results become uses of their operands. A permutation without pairs and an index in a group of one
    become zeros.
    """
    result = Graph(graph.name, graph.inputs)
    replacements: dict[Value, Value] = {}
    for node in graph.nodes:
        node = rewired(node, replacements) if replacements else node
        if node.op == "manual":
            result.nodes.append(node)
        elif not is_alone(node, mesh):
            regions = tuple(without_groups_of_one(region, mesh) for region in node.regions)
            result.nodes.append(replace(node, regions=regions))
        elif not node.operands or (node.op == "permute_pairs" and not node.attrs.pairs):
            kind = node.result.type
            attrs = {"value": np.broadcast_to(np.zeros((), kind.numpy_dtype), kind.sizes)}
            result.nodes.append(replace(node, op="constant", operands=[], attrs=attrs))
        else:
            replacements.update(zip(node.results, node.operands, strict=True))
    result.outputs = [replacements.get(value, value) for value in graph.outputs]
    return result
