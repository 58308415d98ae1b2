"""Print gathers as `tensor.gather`, if they gather full slices."""

from __future__ import annotations

from meshgen.ir.graph import Node, TensorType, is_float
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.upstream.element_types import element, signless
from meshgen.mlir.upstream.inexpressible import Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write
from meshgen.mlir.upstream.reshape import reshaped

_FORM = "tensor.gather needs full slices, and indices that are leading dims of the result"


def write_gather(printer: UpstreamPrinter, node: Node) -> None:
    """Print a gather of full slices. Its indices are clamped to the bounds first, which StableHLO does implicitly."""
    attrs, (table, indices) = node.attrs, (signless(value.type) for value in node.operands)
    dims, rows = tuple(attrs.start_index_map), indices.rank - (attrs.index_vector_dim < indices.rank)
    sizes = [1 if dim in dims else size for dim, size in enumerate(table.sizes)]
    offset_dims = tuple(range(rows, node.result.type.rank))
    if (
        dims != tuple(sorted(dims)) or tuple(sorted(attrs.collapsed_slice_dims)) != dims or attrs.operand_batching_dims
        or tuple(attrs.offset_dims) != offset_dims or list(attrs.slice_sizes) != sizes or attrs.index_vector_dim not in (rows, indices.rank)
        or is_float(indices.dtype)
    ):  # fmt: skip
        raise Inexpressible(_FORM)
    name = printer.operand(node, 1)
    if attrs.index_vector_dim == indices.rank:
        column = indices.with_shape((*indices.shape, 1))
        name, indices = reshaped(printer, name, indices, column), column
    name = _inside(printer, node, name, indices, [table.sizes[dim] - 1 for dim in dims])
    source, types = printer.operand(node, 0), f"({tensor_text(table)}, {tensor_text(indices)})"
    printer.assign(
        node, f"tensor.gather {source}[{name}] gather_dims({list(dims)}) : {types} -> {printer.type(node.result)}"
    )


def _inside(printer: UpstreamPrinter, node: Node, name: str, kind: TensorType, last: list[int]) -> str:
    """Return the name of the indices clamped to the range from 0 to `last`.

    The limit is one scalar, so all indexed dims must have the same size.
    """
    if len({*last}) > 1:
        raise Inexpressible("the indexed dims have different sizes")
    dtype, text = element(kind.dtype), tensor_text(kind)
    is_unsigned = node.operands[1].type.dtype.startswith("ui")
    zero, limit = (printer.number(number, kind.dtype) for number in (0, last[0]))
    index, out = (f"%{printer.new_name('')}" for _ in range(2))

    def lines() -> None:
        value = index if is_unsigned else printer.temporary(f"arith.maxsi {index}, {zero} : {dtype}")
        word = "minui" if is_unsigned else "minsi"
        printer.emit(f"linalg.yield {printer.temporary(f'arith.{word} {value}, {limit} : {dtype}')} : {dtype}")

    empty = printer.temporary(f"tensor.empty() : {text}")
    sides = f"ins({name} : {text}) outs({empty} : {text})"
    return printer.temporary(f"linalg.map {sides} ({index}: {dtype}, {out}: {dtype}) {printer.scope(lines)}")


WRITERS: dict[str, Write] = {"gather": write_gather}
