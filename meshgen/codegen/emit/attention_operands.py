"""Operand tiles of the matmuls in attention kernels."""

from __future__ import annotations

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guards
from meshgen.codegen.emit.index_maps import read_through
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Value
from meshgen.ir.matchers import Producer
from meshgen.ops.classes import LAYOUT, LEAVING
from meshgen.ops.triton.registers import rounded

_READ_THROUGH = (LAYOUT - LEAVING - {"mask_padding"}) | {"slice", "convert"}
LOG2_E = 1.4426950408889634  # log2(e): GPUs compute exp(x) as exp2(x * log2(e))


def operand_tile(
    evaluator: Evaluator, value: Value, index: Index, name: str, block: tuple[str, str], summed: Var, dtype: str = ""
) -> str:
    """Return a tile of `value` in the matmul dtype. Elements past the end of `summed` are 0.

    Args:
        name: name of the variable for a computed tile. The name of a loaded tile is derived from the loaded value.
        block: shape of a computed tile.
        summed: the contracted variable.
        dtype: the matmul dtype, or "" for the dtype of `value`. If `value` is a conversion from `dtype`, the tile is
            loaded without this conversion.
    """
    plain = _plain_load(evaluator, value, index, dtype or value.type.dtype)
    if plain is not None:
        return plain
    text = evaluator.in_register(evaluator.value(value, index)).text
    if edge := evaluator.tile.edges[summed]:
        text = f"tl.where({edge}, {text}, 0.0)"
    text, helpers = rounded(f"tl.broadcast_to({text}, {', '.join(block)})", dtype or value.type.dtype)
    for helper in helpers:
        evaluator.helper(helper)
    return evaluator.assign(name, text)


def _plain_load(evaluator: Evaluator, value: Value, index: Index, dtype: str) -> str | None:
    """Return the variable of the tile if one load through index maps produces it, or None if the tile must be computed."""
    guards: Guards = ()
    while (node := evaluator.producer.get(value)) is not None:
        if node.op == "convert" and value.type.dtype != dtype and node.operands[0].type.dtype == dtype:
            value = node.operands[0]
            continue
        if node.op not in LAYOUT:
            return None
        read = read_through(evaluator, node, index)
        if NEVER in read.conditions or (read.conditions and not (read.fill is None or read.fill in ("0", "0.0"))):
            return None
        value, index, guards = read.value, read.index, (*guards, *read.conditions)
    return evaluator.load(value, index, guards, raw=True).text if value.type.dtype == dtype else None


def source_of(producer: Producer, value: Value, index: Index) -> tuple[Value, Index]:
    """Return the value and index that `value` at `index` is loaded from, after following index maps and conversions.

    Operands with the same source value and index share one tile.
    """
    while (node := producer(value)) is not None and node.op in _READ_THROUGH:
        index = index if node.op == "convert" else backward(node, index)
        value = node.operands[0]
    return value, index
