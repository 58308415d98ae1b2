"""Values of a program that are computed from constants alone."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements
from meshgen.ops.constants import FOLDABLE, constant_of
from meshgen.ops.evaluate.common import Array

_MOST_ELEMENTS = 1 << 20


def known_array(importer: Importer, ssa: SSAValue) -> Array | None:
    """The elements of a value that is visible at `importer`; None where they are not known."""
    value = importer.value(ssa)
    producers = {result: node for node in importer.graph.nodes for result in node.results}
    found = constant_of(value, producers.get, most_elements=_MOST_ELEMENTS)
    if found is None and importer.outer is not None and ssa in importer.captures:
        return known_array(importer.outer, ssa)
    return found


def follows_from_sizes(importer: Importer, ssa: SSAValue) -> bool:
    """Whether a value is computed from constants and sizes alone: it is a number once sizes are given."""
    makers = {result: node for node in importer.graph.nodes for result in node.results}
    waiting = [importer.value(ssa)]
    for value in waiting:  # grows
        node = makers.get(value)
        if node is None or node.regions or node.op not in (*FOLDABLE, "get_dimension_size"):
            is_outer = importer.outer is not None and ssa in importer.captures
            return is_outer and importer.outer is not None and follows_from_sizes(importer.outer, ssa)
        waiting += [] if node.op == "get_dimension_size" else node.operands
    return True


def dense_array(ssa: SSAValue) -> Array | None:
    """The elements of the `dense` literal that an operation has as its value; None for other values."""
    owner = ssa.owner
    if not isinstance(owner, Operation):
        return None
    literal = owner.properties.get("values") or owner.properties.get("value")
    return literal.data.array if isinstance(literal, DenseElements) else None
