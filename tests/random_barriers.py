"""Random programs with optimization barriers between their operations, also in the regions of loops and branches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import flow_regions, rewired
from meshgen.testing.random_programs import program_of


def program_with_barriers(seed: int) -> Module:
    """Return the random program for `seed` with barriers inserted. Later users of a value read the result of its
    barrier.
    """
    module = program_of(seed)
    return replace(module, graph=_with_barriers(module.graph, np.random.default_rng([seed, 9])))


def _with_barriers(graph: Graph, rng: np.random.Generator) -> Graph:
    replacements: dict[Value, Value] = {}
    nodes: list[Node] = []
    values = list(graph.inputs)
    for node in graph.nodes:
        regions = tuple(
            _with_barriers(region, rng) if region in flow_regions(node) else region for region in node.regions
        )
        nodes.append(rewired(replace(node, regions=regions), replacements))
        values += node.results
        if rng.random() < 0.4 and values:
            # draws with replacement, so that some barriers have an operand twice
            chosen = [values[n] for n in rng.integers(0, len(values), rng.integers(1, 5))]
            operands = [replacements.get(value, value) for value in chosen]
            nodes.append(
                Node("optimization_barrier", operands, [Value(value.type) for value in operands], {}, node.loc)
            )
            replacements.update(zip(chosen, nodes[-1].results, strict=True))
    return Graph(graph.name, graph.inputs, nodes, [replacements.get(value, value) for value in graph.outputs])
