"""Run chains of operations around exposed collectives in 2, 4 or 8 chunks, to overlap communication and computation.

A collective is exposed if it runs while no kernel does.
"""

from __future__ import annotations

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module
from meshgen.ops.composites import expanded
from meshgen.ops.dead_code import without_dead
from meshgen.ops.factors import FORWARD
from meshgen.sharding.chunks.search import Found, search


@module_pass("chunks", "partition", applies="if cheaper")
def chunks(module: Module, context: Compilation) -> Module:
    """Split chains around exposed collectives into chunks if the predicted step is then clearly shorter.

    A collective and the operations around it become one copy per chunk, on slices of the operands; results are
    concatenated. Returns the module itself if no chain is profitable.
    """
    return in_chunks(module, Planner.of(context, module.mesh)).module


def in_chunks(module: Module, planner: Planner) -> Found:
    """Return the program in chunks, and the decision for each exposed collective.

    Attention takes part in chains in its expanded form, because each operation of the decomposition has a loop along
    each of its dims. A later pass fuses unchunked attention again before kernels are generated.

    Raises:
        CodegenError: the program cannot be scheduled.
    """
    if module.chunks:  # the input program runs in chunks already
        return Found(module, module.chunks)
    result = search(planner.flat(module), planner, lambda flat: on_graphs(flat, _expanded))
    if result.module.chunks:
        return result
    planner.context.decide("chunks", module.graph, result.decisions)
    return result._replace(module=module)


def _expanded(graph: Graph) -> Graph:
    after = expanded(graph, lambda node: node.op == FORWARD)
    return graph if after is graph else without_dead(after)
