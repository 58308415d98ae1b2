"""Constant-folding of values during import."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements
from meshgen.ops.constants import FOLDABLE, constant_of
from meshgen.ops.evaluate.common import Array

_MOST_ELEMENTS = 1 << 20  # largest constant that is folded, in elements. Chosen: bounds the time of an import


def known_array(importer: Importer, ssa: SSAValue) -> Array | None:
    """Constant-fold a value that is visible at `importer`.

    Returns its elements, or None if it is not constant or has too many elements.
    """
    value = importer.value(ssa)
    producers = {result: node for node in importer.graph.nodes for result in node.results}
    elements = constant_of(value, producers.get, most_elements=_MOST_ELEMENTS)
    if elements is None and importer.outer is not None and ssa in importer.captures:
        return known_array(importer.outer, ssa)
    return elements


def depends_only_on_sizes(importer: Importer, ssa: SSAValue) -> bool:
    """Whether a value depends on nothing but constants and dim sizes, so that it is constant once the sizes are
    specified.
    """
    producers = {result: node for node in importer.graph.nodes for result in node.results}
    worklist = [importer.value(ssa)]
    for value in worklist:  # The list grows during the iteration.
        node = producers.get(value)
        if node is None or node.regions or node.op not in (*FOLDABLE, "get_dimension_size"):
            is_outer = importer.outer is not None and ssa in importer.captures
            return is_outer and importer.outer is not None and depends_only_on_sizes(importer.outer, ssa)
        worklist += [] if node.op == "get_dimension_size" else node.operands
    return True


def dense_array(ssa: SSAValue) -> Array | None:
    """Return the elements of the `dense` literal that defines the value, or None for other values."""
    owner = ssa.owner
    if not isinstance(owner, Operation):
        return None
    literal = owner.properties.get("values") or owner.properties.get("value")
    return literal.data.array if isinstance(literal, DenseElements) else None
