"""Random programs with optimization barriers between their operations, in the regions of loops and branches too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import flow_regions, rewired
from meshgen.testing.random_programs import program_of


def program_with_barriers(seed: int) -> Module:
    """The random program of a seed with barriers: who reads a value behind one reads its result."""
    module = program_of(seed)
    return replace(module, graph=_with_barriers(module.graph, np.random.default_rng([seed, 9])))


def _with_barriers(graph: Graph, rng: np.random.Generator) -> Graph:
    now: dict[Value, Value] = {}
    nodes: list[Node] = []
    there = list(graph.inputs)
    for node in graph.nodes:
        regions = tuple(
            _with_barriers(region, rng) if region in flow_regions(node) else region for region in node.regions
        )
        nodes.append(rewired(replace(node, regions=regions), now))
        there += node.results
        if rng.random() < 0.4 and there:
            chosen = [there[n] for n in rng.integers(0, len(there), rng.integers(1, 5))]  # some of them twice
            operands = [now.get(value, value) for value in chosen]
            nodes.append(
                Node("optimization_barrier", operands, [Value(value.type) for value in operands], {}, node.loc)
            )
            now.update(zip(chosen, nodes[-1].results, strict=True))
    return Graph(graph.name, graph.inputs, nodes, [now.get(value, value) for value in graph.outputs])
