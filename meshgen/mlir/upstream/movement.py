"""Print constants and operations that move elements, as operations of arith, tensor and linalg."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshgen.ir.graph import Node, TensorType, Value, is_complex
from meshgen.mlir.dense import dense_text
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.upstream.element_types import element, fill_text, signless, signless_array
from meshgen.mlir.upstream.inexpressible import Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write
from meshgen.mlir.upstream.scalars import bit_width
from meshgen.mlir.upstream.structured import affine_map, generic_text


def write_constant(printer: UpstreamPrinter, node: Node) -> None:
    kind = node.result.type
    if is_complex(kind.dtype):
        raise Inexpressible(f"arith has no {kind.dtype}")
    target, value = signless_array(np.asarray(node.attrs.value, kind.numpy_dtype), kind)
    printer.assign(node, f"arith.constant {dense_text(value, target)} : {tensor_text(target)}")


def write_iota(printer: UpstreamPrinter, node: Node) -> None:
    kind = node.result.type
    if None in kind.shape:
        raise Inexpressible("its size is unknown")
    indices = [f"%{printer.new_name('')}" for _ in kind.shape]
    target = element(kind.dtype)

    def lines() -> None:
        printer.emit(f"^bb0({', '.join(f'{name}: index' for name in indices)}):")
        if kind.dtype.startswith(("i", "ui")):
            element_value = printer.temporary(f"arith.index_cast {indices[node.attrs.dim]} : index to {target}")
        else:
            integer = printer.temporary(f"arith.index_cast {indices[node.attrs.dim]} : index to i64")
            element_value = printer.temporary(f"arith.sitofp {integer} : i64 to {target}")
        printer.emit(f"tensor.yield {element_value} : {target}")

    printer.assign(node, f"tensor.generate {printer.scope(lines)} : {printer.type(node.result)}")


def write_bitcast(printer: UpstreamPrinter, node: Node) -> None:
    before, after = node.operands[0].type, node.result.type
    if is_complex(before.dtype) or is_complex(after.dtype) or bit_width(before.dtype) != bit_width(after.dtype):
        raise Inexpressible("tensor.bitcast needs element types of the same width")
    name, types = printer.operand(node, 0), [printer.type(node.operands[0]), printer.type(node.result)]
    if types[0] == types[1]:
        printer.alias(node, name)
    else:
        printer.assign(node, f"tensor.bitcast {name} : {' to '.join(types)}")


def write_slice(printer: UpstreamPrinter, node: Node) -> None:
    attrs = node.attrs
    sizes = list(node.result.type.sizes)
    ranges = f"{list(attrs.start)} {sizes} {list(attrs.stride)}"
    name = printer.operand(node, 0)
    printer.assign(
        node, f"tensor.extract_slice {name}{ranges} : {printer.type(node.operands[0])} to {printer.type(node.result)}"
    )


def write_concatenate(printer: UpstreamPrinter, node: Node) -> None:
    names = [printer.operand(node, number) for number in range(len(node.operands))]
    types = ", ".join(printer.types(node.operands))
    text = f"tensor.concat dim({node.attrs.dim}) {', '.join(names)} : ({types}) -> {printer.type(node.result)}"
    printer.assign(node, text)


def write_pad(printer: UpstreamPrinter, node: Node) -> None:
    attrs = node.attrs
    fill, name, source = printer.scalar(node.operands[1]), printer.operand(node, 0), signless(node.operands[0].type)
    name, source, low, high = _cropped(printer, name, source, attrs.low, attrs.high, attrs.interior)
    printer.assign(node, _pad_text(printer, name, source, fill, signless(node.result.type), low, high, attrs.interior))


def padded(
    printer: UpstreamPrinter, name: str, source: TensorType, fill: str, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> tuple[str, TensorType]:  # fmt: skip
    """Add operations that pad the tensor `name` with the scalar `fill`. Returns the name and the type of the result."""
    if not any((*low, *high, *interior)):
        return name, source
    name, source, low, high = _cropped(printer, name, source, low, high, interior)
    sizes = zip(source.sizes, low, high, interior, strict=True)
    kind = source.with_shape(before + size + max(size - 1, 0) * step + after for size, before, after, step in sizes)
    return printer.temporary(_pad_text(printer, name, source, fill, kind, low, high, interior)), kind


def _pad_text(
    printer: UpstreamPrinter, name: str, source: TensorType, fill: str, kind: TensorType, low: Sequence[int], high: Sequence[int],
    interior: Sequence[int],
) -> str:  # fmt: skip
    """Return the text of a `tensor.pad`, or, with interior padding, of a strided `tensor.insert_slice` into a filled
    tensor.
    """
    types = f"{tensor_text(source)} to {tensor_text(kind)}"
    if any(interior):
        whole = printer.temporary(fill_text(fill, printer.temporary(f"tensor.empty() : {tensor_text(kind)}"), kind))
        ranges = f"{list(low)} {list(source.sizes)} {[step + 1 for step in interior]}"
        return f"tensor.insert_slice {name} into {whole}{ranges} : {types.replace(' to ', ' into ')}"
    indices = ", ".join(f"%{printer.new_name('')}: index" for _ in kind.shape)

    def lines() -> None:
        if indices:
            printer.emit(f"^bb0({indices}):")
        printer.emit(f"tensor.yield {fill} : {element(kind.dtype)}")

    return f"tensor.pad {name} low{list(low)} high{list(high)} {printer.scope(lines)} : {types}"


def _cropped(
    printer: UpstreamPrinter, name: str, source: TensorType, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> tuple[str, TensorType, list[int], list[int]]:  # fmt: skip
    """Add a slice that removes the elements which negative padding cuts off.

    Returns the name and type of the slice, and the low and high padding that remain.
    """
    low, high = list(low), list(high)
    start, size = [0] * len(low), list(source.sizes)
    for dim, step in enumerate(interior):
        for side in (low, high):
            if side[dim] < 0:
                removed = -(side[dim] // (step + 1))
                size[dim] -= removed
                start[dim] += removed if side is low else 0
                side[dim] += removed * (step + 1)
    if any(count < 0 for count in size):
        raise Inexpressible("negative padding removes all elements of a dim")
    if size == list(source.sizes):
        return name, source, low, high
    target = source.with_shape(size)
    ranges = f"{start} {size} {[1] * len(size)}"
    name = printer.temporary(f"tensor.extract_slice {name}{ranges} : {tensor_text(source)} to {tensor_text(target)}")
    return name, target, low, high


def write_reverse(printer: UpstreamPrinter, node: Node) -> None:
    name = printer.operand(node, 0)
    printer.assign(node, reversed_text(printer, name, signless(node.result.type), node.attrs.dims, printer.empty(node)))


def reversed_text(printer: UpstreamPrinter, name: str, kind: TensorType, dims: Sequence[int], out: str) -> str:
    """Return the text of a `linalg.generic` that copies a tensor into `out` with the dims `dims` reversed."""
    expressions = [f"{kind.sizes[d] - 1} - d{d}" if d in dims else d for d in range(kind.rank)]
    maps = [affine_map(kind.rank, expressions), affine_map(kind.rank, range(kind.rank))]

    def body(names: list[str]) -> None:
        printer.emit(f"linalg.yield {names[0]} : {element(kind.dtype)}")

    return generic_text(printer, maps, ["parallel"] * kind.rank, [(name, kind), (out, kind)], body)


def _slice_starts(
    printer: UpstreamPrinter, values: Sequence[Value], whole: TensorType, sizes: Sequence[int]
) -> list[str]:
    """Return the names of the start indices of a slice, clamped as in StableHLO, so that the slice is in bounds."""
    starts: list[str] = []
    for value, size, slice_size in zip(values, whole.sizes, sizes, strict=True):
        if size == slice_size:
            starts.append("0")
            continue
        index = printer.index(value)
        zero, last = (printer.temporary(f"arith.constant {number} : index") for number in (0, size - slice_size))
        nonnegative = printer.temporary(f"arith.maxsi {index}, {zero} : index")
        starts.append(printer.temporary(f"arith.minsi {nonnegative}, {last} : index"))
    return starts


def write_dynamic_slice(printer: UpstreamPrinter, node: Node) -> None:
    source, kind = (signless(value.type) for value in (node.operands[0], node.result))
    starts = _slice_starts(printer, node.operands[1:], source, node.attrs.slice_sizes)
    ranges = f"[{', '.join(starts)}] {list(kind.sizes)} {[1] * kind.rank}"
    name = printer.operand(node, 0)
    printer.assign(node, f"tensor.extract_slice {name}{ranges} : {tensor_text(source)} to {tensor_text(kind)}")


def write_dynamic_update(printer: UpstreamPrinter, node: Node) -> None:
    target, part = (signless(value.type) for value in node.operands[:2])
    starts = _slice_starts(printer, node.operands[2:], target, part.sizes)
    ranges = f"[{', '.join(starts)}] {list(part.sizes)} {[1] * part.rank}"
    whole, name = printer.operand(node, 0), printer.operand(node, 1)
    text = f"tensor.insert_slice {name} into {whole}{ranges} : {tensor_text(part)} into {tensor_text(target)}"
    printer.assign(node, text)


WRITERS: dict[str, Write] = {
    "constant": write_constant,
    "iota": write_iota,
    "bitcast_convert": write_bitcast,
    "slice": write_slice,
    "concatenate": write_concatenate,
    "pad": write_pad,
    "reverse": write_reverse,
    "dynamic_slice": write_dynamic_slice,
    "dynamic_update_slice": write_dynamic_update,
}
