"""The iteration space of a finished body, found again from one of its nodes."""

from __future__ import annotations

from meshgen.codegen.fusion.row_subtiles import columns_reduced
from meshgen.codegen.fusion.space import Space
from meshgen.ir.graph import Graph, Node
from meshgen.ops.classes import LAYOUT, LOOPS, MADE
from meshgen.ops.rows import row_length, sums_beside_rows


def grown(body: Graph, anchor: Node) -> Space:
    """The space that a node of a body spans, with every node that can be placed in it."""
    space = Space(body.index.producers.get)
    space.start(anchor, columns_reduced(anchor, body.nodes))
    space.add_all([n for n in body.nodes if n is not anchor and n.op not in MADE and n.op not in LAYOUT], body.nodes)
    return space


def space_of_row_sums(body: Graph) -> Space | None:
    """The space of a body that reduces rows and sums them up; None for other bodies."""
    loops = [node for node in body.nodes if node.op in LOOPS]
    if not sums_beside_rows(loops):
        return None
    space = grown(body, next(node for node in loops if row_length(node)))
    sums = {node.result for node in space.sums}
    is_whole = all(node.result in space.members for node in loops)
    is_whole = is_whole and all(v in sums or space.locate(v) is not None for v in body.outputs)
    return space if sums and is_whole else None
