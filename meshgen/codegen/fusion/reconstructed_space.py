"""The iteration space of a finished kernel body, reconstructed from one of its nodes."""

from __future__ import annotations

from meshgen.codegen.fusion.row_subtiles import columns_reduced
from meshgen.codegen.fusion.space import Space
from meshgen.ir.graph import Graph, Node
from meshgen.ops.classes import LAYOUT, LOOPS, MADE
from meshgen.ops.row_reductions import has_row_and_run_sums, row_length


def grown(body: Graph, anchor: Node) -> Space:
    """Return the iteration space that starts with node `anchor` and contains all nodes of the body that can be added."""
    space = Space(body.index.producers.get)
    space.start(anchor, columns_reduced(anchor, body.nodes))
    space.add_all([n for n in body.nodes if n is not anchor and n.op not in MADE and n.op not in LAYOUT], body.nodes)
    return space


def space_of_row_sums(body: Graph) -> Space | None:
    """Return the iteration space of a body that reduces rows and also sums runs of these rows, or None for other
    bodies.
    """
    loops = [node for node in body.nodes if node.op in LOOPS]
    if not has_row_and_run_sums(loops):
        return None
    space = grown(body, next(node for node in loops if row_length(node)))
    sums = {node.result for node in space.sums}
    is_complete = all(node.result in space.members for node in loops)
    is_complete = is_complete and all(v in sums or space.locate(v) is not None for v in body.outputs)
    return space if sums and is_complete else None
