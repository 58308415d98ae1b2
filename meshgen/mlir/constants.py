"""Constant-folding of values during import."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements
from meshgen.ops.constants import FOLDABLE, constant_of
from meshgen.ops.evaluate.common import Array

_MAX_FOLDED_ELEMENTS = (
    1 << 20
)  # largest constant that is folded, in elements. Chosen to bound the time that an import takes


def folded_array(importer: Importer, ssa: SSAValue) -> Array | None:
    """Constant-fold the SSA value `ssa`, which must be visible where `importer` converts operations.

    Returns its elements, or None if it is not constant or has more than `_MAX_FOLDED_ELEMENTS` elements.
    """
    value = importer.value(ssa)
    producers = {result: node for node in importer.graph.nodes for result in node.results}
    elements = constant_of(value, producers.get, most_elements=_MAX_FOLDED_ELEMENTS)
    if elements is None and importer.outer is not None and ssa in importer.captures:
        return folded_array(importer.outer, ssa)
    return elements


def depends_only_on_sizes(importer: Importer, ssa: SSAValue) -> bool:
    """Whether a value is computed from constants and dim sizes alone, so that it is constant once all sizes are static."""
    producers = {result: node for node in importer.graph.nodes for result in node.results}
    worklist = [importer.value(ssa)]
    for value in worklist:  # The loop appends to the list that it iterates over.
        node = producers.get(value)
        if node is None or node.regions or node.op not in (*FOLDABLE, "get_dimension_size"):
            is_outer = importer.outer is not None and ssa in importer.captures
            return is_outer and importer.outer is not None and depends_only_on_sizes(importer.outer, ssa)
        worklist += [] if node.op == "get_dimension_size" else node.operands
    return True


def dense_array(ssa: SSAValue) -> Array | None:
    """Return the elements of the `dense<...>` constant that defines `ssa`, or None for other values."""
    owner = ssa.owner
    if not isinstance(owner, Operation):
        return None
    literal = owner.properties.get("values") or owner.properties.get("value")
    return literal.data.array if isinstance(literal, DenseElements) else None
