"""Print dots, reductions, broadcasts and transposes as operations of linalg."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from meshgen.ir.graph import Graph, Node, TensorType, Value, is_complex
from meshgen.mlir.linalg.any_order import ANY_ORDER
from meshgen.mlir.literals import quoted
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.upstream.element_types import element, fill_text, signless
from meshgen.mlir.upstream.inexpressible import Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write
from meshgen.mlir.upstream.reshape import reshaped
from meshgen.mlir.upstream.scalars import bit_width, convert_scalar, plain_operation, write_scalar

_NAMES = {"[[0, 2], [2, 1], [0, 1]]": "matmul", "[[0, 1, 3], [0, 3, 2], [0, 1, 2]]": "batch_matmul"}
"""Loops that index the dims of left operand, right operand and result -> name of the matmul in linalg."""


def affine_map(loops: int, results: Iterable[str | int]) -> str:
    """Return the text of an affine map of `loops` loops, such as `affine_map<(d0, d1) -> (d1)>`.

    Each result is the number of a loop, or the text of an expression.
    """
    dims = ", ".join(f"d{loop}" for loop in range(loops))
    return f"affine_map<({dims}) -> ({', '.join(f'd{result}' if isinstance(result, int) else result for result in results)})>"


def write_dot(printer: UpstreamPrinter, node: Node) -> None:
    """Print a dot as a named matmul of linalg if it is one, else as `linalg.contract`.

    Its loops are the batch dims, the rows, the columns and the contracted dims, in this order.
    """
    attrs, (left, right) = node.attrs, (value.type for value in node.operands)
    dtype = node.result.type.dtype
    widths = [bit_width(kind) for kind in (left.dtype, right.dtype, dtype)]
    if is_complex(dtype) or dtype == "i1" or (dtype.startswith("ui") and len({*widths}) > 1):
        raise Inexpressible(f"linalg does not multiply {dtype}")
    if max(widths) > widths[2]:
        raise Inexpressible(f"linalg would multiply in {dtype}, to which it converts the operands")
    left_free = [d for d in range(left.rank) if d not in (*attrs.lhs_batch, *attrs.lhs_contract)]
    right_free = [d for d in range(right.rank) if d not in (*attrs.rhs_batch, *attrs.rhs_contract)]
    batch, result = len(attrs.lhs_batch), node.result.type.rank
    loops = result + len(attrs.lhs_contract)
    left_loops = _numbered((*attrs.lhs_batch, *left_free), 0) | _numbered(attrs.lhs_contract, result)
    right_loops = _numbered(attrs.rhs_batch, 0) | _numbered(right_free, batch + len(left_free))
    right_loops |= _numbered(attrs.rhs_contract, result)
    maps = [[left_loops[d] for d in range(left.rank)], [right_loops[d] for d in range(right.rank)], list(range(result))]
    init = printer.filled(node, printer.number(0, dtype), signless(node.result.type))
    operands = [printer.operand(node, number) for number in (0, 1)]
    sides = f"ins({', '.join(operands)} : {', '.join(printer.types(node.operands))}) outs({init} : {printer.type(node.result)})"
    texts = [affine_map(loops, results) for results in maps]
    if not attrs.lhs_contract:
        kinds = [signless(value.type) for value in (*node.operands, node.result)]
        pairs = list(zip((*operands, init), kinds, strict=True))
        printer.assign(node, _outer_product(printer, node, texts, pairs))
        return
    name = _NAMES.get(str(maps))
    head = f"linalg.{name}" if name else f"linalg.contract indexing_maps = [{', '.join(texts)}]"
    printer.assign(node, f"{head}{printer.discardable(node)} {sides} -> {printer.type(node.result)}")


def _outer_product(
    printer: UpstreamPrinter, node: Node, maps: Sequence[str], operands: Sequence[tuple[str, TensorType]]
) -> str:
    """Return the text of a `linalg.generic` for a dot without contracted dims, which `linalg.contract` rejects."""

    def body(names: list[str]) -> None:
        printer.emit(f"linalg.yield {product(printer, node, names)} : {element(node.result.type.dtype)}")

    return generic_text(printer, maps, ["parallel"] * node.result.type.rank, operands, body)


def product(printer: UpstreamPrinter, node: Node, factors: Sequence[str]) -> str:
    """Add operations that multiply two scalars in the element type of the node's result. Returns the name of the
    product.
    """
    dtype = node.result.type.dtype
    converted = [
        convert_scalar(printer, x, value.type.dtype, dtype) for x, value in zip(factors, node.operands, strict=False)
    ]
    return printer.temporary(f"{plain_operation('multiply', dtype)} {', '.join(converted)} : {element(dtype)}")


def generic_text(
    printer: UpstreamPrinter, maps: Sequence[str], loops: Sequence[str], operands: Sequence[tuple[str, TensorType]],
    body: Callable[[list[str]], None], attributes: str = "",
) -> str:  # fmt: skip
    """Return the text of a `linalg.generic`. The last of `operands` is the output.

    `body` adds the lines of the body: it takes the names of the block arguments, one element per operand.
    """
    names = [f"%{printer.new_name('')}" for _ in operands]

    def lines() -> None:
        arguments = zip(names, operands, strict=True)
        printer.emit(f"^bb0({', '.join(f'{name}: {element(kind.dtype)}' for name, (_, kind) in arguments)}):")
        body(names)

    *ins, (out, kind) = operands
    inputs = (
        f"ins({', '.join(name for name, _ in ins)} : {', '.join(tensor_text(input_type) for _, input_type in ins)})"
    )
    head = f"linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{', '.join(map(quoted, loops))}]}}"
    attrs = f" attrs ={attributes}" if attributes else ""
    return f"{head} {inputs} outs({out} : {tensor_text(kind)}){attrs} {printer.scope(lines)} -> {tensor_text(kind)}"


def _numbered(dims: Sequence[int], first: int) -> dict[int, int]:
    return {dim: first + position for position, dim in enumerate(dims)}


def write_reduce(printer: UpstreamPrinter, node: Node) -> None:
    dtype = node.operands[0].type.dtype
    plain = plain_operation(node.attrs.kind, dtype)
    if not plain:
        raise Inexpressible(f"arith has no '{node.attrs.kind}' of {dtype}")
    name = printer.operand(node, 0)
    init = printer.filled(node, printer.scalar(node.operands[1]), signless(node.result.type))
    sides = f"ins({name} : {printer.type(node.operands[0])}) outs({init} : {printer.type(node.result)})"
    text = f"linalg.reduce {{ {plain} }} {sides} dimensions = {sorted(node.attrs.dims)}"
    printer.assign(node, text + printer.discardable(node))


def write_reduce_region(printer: UpstreamPrinter, node: Node) -> None:
    """Print a joint reduction. In the node's region the accumulators precede the elements; in linalg they follow them."""
    count = len(node.results)
    sources = [printer.operand(node, number) for number in range(count)]
    inits = [
        printer.filled(node, printer.scalar(start), signless(value.type))
        for start, value in zip(node.operands[count:], node.results, strict=True)
    ]
    ins = f"ins({', '.join(sources)} : {', '.join(printer.types(node.operands[:count]))})"
    outs = f"outs({', '.join(inits)} : {', '.join(printer.types(node.results))})"
    (region,) = node.regions
    names = {value: f"%{printer.new_name('')}" for value in region.inputs}
    order = [*region.inputs[count:], *region.inputs[:count]]
    arguments = ", ".join(f"{names[value]}: {element(value.type.dtype)}" for value in order)
    body = printer.scope(lambda: write_scalars(printer, region, names))
    text = f"linalg.reduce {ins} {outs} dimensions = {sorted(node.attrs.dims)} {{{ANY_ORDER}}} ({arguments}) {body}"
    printer.assign(node, text)


def write_scalars(printer: UpstreamPrinter, region: Graph, names: dict[Value, str]) -> None:
    """Add the operations of a region as operations on scalars, and a `linalg.yield` of its outputs.

    `names` has the names of the region's inputs.
    """
    for node in region.nodes:
        names[node.result] = write_scalar(printer, node, [names[value] for value in node.operands])
    kinds = [element(value.type.dtype) for value in region.outputs]
    printer.emit(f"linalg.yield {', '.join(names[value] for value in region.outputs)} : {', '.join(kinds)}")


def write_broadcast(printer: UpstreamPrinter, node: Node) -> None:
    """Print a broadcast: a `linalg.fill` if the operand is 0-d, else a `linalg.broadcast`.

    Dims of size 1 that are expanded are dropped before, and the remaining dims are transposed into ascending order.
    """
    source, kind, dims = signless(node.operands[0].type), signless(node.result.type), list(node.attrs.dims)
    if not source.rank:
        number = printer.scalar(node.operands[0])
        printer.assign(node, fill_text(number, printer.empty(node), kind))
        return
    name = printer.operand(node, 0)
    kept = [d for d, size in enumerate(source.shape) if size == kind.shape[dims[d]]]
    if len(kept) < source.rank:
        smaller = source.with_shape(source.shape[d] for d in kept)
        name, source = reshaped(printer, name, source, smaller), smaller
        dims = [dims[d] for d in kept]
    if dims != sorted(dims):
        order = sorted(range(len(dims)), key=lambda d: dims[d])
        transposed = source.with_shape(source.shape[d] for d in order)
        empty = printer.temporary(f"tensor.empty() : {tensor_text(transposed)}")
        name = printer.temporary(_transpose(name, source, transposed, empty, order))
        source = transposed
    added = [d for d in range(kind.rank) if d not in dims]
    outs = f"outs({printer.empty(node)} : {printer.type(node.result)})"
    printer.assign(node, f"linalg.broadcast ins({name} : {tensor_text(source)}) {outs} dimensions = {added}")


def _transpose(name: str, source: TensorType, target: TensorType, empty: str, order: Sequence[int]) -> str:
    sides = f"ins({name} : {tensor_text(source)}) outs({empty} : {tensor_text(target)})"
    return f"linalg.transpose {sides} permutation = {list(order)}"


def write_transpose(printer: UpstreamPrinter, node: Node) -> None:
    name = printer.operand(node, 0)
    empty = printer.empty(node)
    printer.assign(
        node, _transpose(name, signless(node.operands[0].type), signless(node.result.type), empty, node.attrs.perm)
    )


WRITERS: dict[str, Write] = {
    "dot_general": write_dot,
    "reduce": write_reduce,
    "reduce_region": write_reduce_region,
    "broadcast_in_dim": write_broadcast,
    "transpose": write_transpose,
}
