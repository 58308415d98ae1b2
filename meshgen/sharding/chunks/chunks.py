"""Chains of operations around exposed collectives run in 2, 4 or 8 chunks, so that communication overlaps computation."""

from __future__ import annotations

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module
from meshgen.ops.composites import expanded
from meshgen.ops.factors import FORWARD
from meshgen.ops.live import without_dead
from meshgen.sharding.chunks.search import Found, search


@module_pass("chunks", "partition", applies="if cheaper")
def chunks(module: Module, context: Compilation) -> Module:
    """Return the program in chunks if the predicted step is then clearly shorter; else the module itself."""
    return in_chunks(module, Planner.of(context, module.mesh)).module


def in_chunks(module: Module, planner: Planner) -> Found:
    """Return the program in chunks, and the decision for each exposed collective.

    Chains run through attention in its expanded form: each operation of the decomposition has a loop along each of its dims. What
    is left of it is formed again before kernels are made.

    Raises CodegenError if the program cannot be scheduled.
    """
    if module.chunks:  # it was written in chunks
        return Found(module, module.chunks)
    found = search(planner.flat(module), planner, lambda flat: on_graphs(flat, _expanded))
    if found.module.chunks:
        return found
    planner.context.decide("chunks", module.graph, found.decisions)
    return found._replace(module=module)


def _expanded(graph: Graph) -> Graph:
    after = expanded(graph, lambda node: node.op == FORWARD)
    return graph if after is graph else without_dead(after)
