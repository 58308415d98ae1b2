"""Random programs with optimization barriers between their operations, also in the regions of loops and branches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import flow_regions, rewired
from meshgen.testing.random_programs import program_of


def program_with_barriers(seed: int) -> Module:
    """Return the random program of a seed with barriers. Users of a value after its barrier read the barrier's result."""
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
            chosen = [values[n] for n in rng.integers(0, len(values), rng.integers(1, 5))]  # some values more than once
            operands = [replacements.get(value, value) for value in chosen]
            nodes.append(
                Node("optimization_barrier", operands, [Value(value.type) for value in operands], {}, node.loc)
            )
            replacements.update(zip(chosen, nodes[-1].results, strict=True))
    return Graph(graph.name, graph.inputs, nodes, [replacements.get(value, value) for value in graph.outputs])
