"""Print convolutions and window reductions as `linalg.generic` over the loops of the result and of the window.

The image is padded first. The index of a spatial dim of the image is `stride * d + dilation * k`, where d is a loop of
the result and k a loop of the window:

    affine_map<(d0, d1, d2) -> (d0, d1 * 2 + d2)>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meshgen.ir.graph import Node, TensorType, is_complex
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.upstream.element_types import element, signless
from meshgen.mlir.upstream.inexpressible import Inexpressible
from meshgen.mlir.upstream.movement import padded, reversed_text
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write
from meshgen.mlir.upstream.reshape import reshape_steps, reshaped
from meshgen.mlir.upstream.scalars import bit_width, plain_operation
from meshgen.mlir.upstream.structured import affine_map, generic_text, product, write_scalars

Index = int | str  # the number of a loop, or the text of an affine expression


def _read_at(outer: int, stride: int, inner: int, dilation: int) -> str:
    """Return the text of the index into the image: `outer * stride + inner * dilation` for a result loop and a window
    loop.
    """
    steps = ((outer, stride), (inner, dilation))
    return " + ".join(f"d{loop}" if step == 1 else f"d{loop} * {step}" for loop, step in steps)


def write_reduce_window(printer: UpstreamPrinter, node: Node) -> None:
    if len(node.results) > 1:
        raise Inexpressible("linalg has no joint window reduction of several values")
    attrs, kind, rank = node.attrs, signless(node.result.type), node.result.type.rank
    if any(step != 1 for step in attrs.base_dilations):
        raise Inexpressible("linalg has no window reduction of dilated operands")
    fill, source = printer.scalar(node.operands[1]), signless(node.operands[0].type)
    image, source = padded(printer, printer.operand(node, 0), source, fill, attrs.low, attrs.high, (0,) * rank)
    window = TensorType(tuple(attrs.window_dimensions), kind.dtype)
    shape = printer.temporary(f"tensor.empty() : {tensor_text(window)}")
    reads = [_read_at(d, attrs.window_strides[d], rank + d, attrs.window_dilations[d]) for d in range(rank)]
    maps = [affine_map(2 * rank, results) for results in (reads, range(rank, 2 * rank), range(rank))]
    (region,) = node.regions

    def body(names: list[str]) -> None:
        accumulator, window_element = region.inputs
        write_scalars(printer, region, {accumulator: names[2], window_element: names[0]})

    operands = [(image, source), (shape, window), (printer.filled(node, fill, kind), kind)]
    loops = ["parallel"] * rank + ["reduction"] * rank
    printer.assign(node, generic_text(printer, maps, loops, operands, body))


def write_convolution(printer: UpstreamPrinter, node: Node) -> None:
    """Print a convolution.

    Its parallel loops are the batch, the feature group (if there are several), the output feature within the group, and
    the output position. Its reduction loops are the input feature within the group, and the position in the window.
    """
    attrs, kind = node.attrs, signless(node.result.type)
    image, kernel = (signless(value.type) for value in node.operands)
    widths = [bit_width(operand.dtype) for operand in (image, kernel, kind)]
    if is_complex(kind.dtype) or attrs.batch_group_count != 1 or max(widths) > widths[2]:
        raise Inexpressible("linalg has no convolution with batch groups, of complex numbers or to a narrower type")
    groups, spatial = attrs.feature_group_count, len(attrs.window_strides)
    numbers = iter(range(4 + 2 * spatial))
    batch, group = next(numbers), [next(numbers)] if groups > 1 else []
    feature, points = next(numbers), [next(numbers) for _ in range(spatial)]
    inner, taps = next(numbers), [next(numbers) for _ in range(spatial)]
    reads = [
        _read_at(outer, stride, tap, dilation)
        for outer, stride, tap, dilation in zip(points, attrs.window_strides, taps, attrs.rhs_dilation, strict=True)
    ]
    roles: list[dict[int, Sequence[Index]]] = [
        {attrs.input_batch: [batch], attrs.input_feature: [*group, inner], **_by_dim(attrs.input_spatial, reads)},
        {
            attrs.kernel_input_feature: [inner],
            attrs.kernel_output_feature: [*group, feature],
            **_by_dim(attrs.kernel_spatial, taps),
        },
        {attrs.output_batch: [batch], attrs.output_feature: [*group, feature], **_by_dim(attrs.output_spatial, points)},
    ]
    left, image = _padded_image(printer, node, image)
    right = printer.operand(node, 1)
    if reversed_dims := [dim for dim, flag in zip(attrs.kernel_spatial, attrs.window_reversal, strict=True) if flag]:
        out = printer.temporary(f"tensor.empty() : {tensor_text(kernel)}")
        right = printer.temporary(reversed_text(printer, right, kernel, reversed_dims, out))
    grouped = [_split_type(t, role, groups) for t, role in zip((image, kernel, kind), roles, strict=True)]
    left, right = reshaped(printer, left, image, grouped[0]), reshaped(printer, right, kernel, grouped[1])
    init = printer.filled(node, printer.number(0, kind.dtype), grouped[2])
    maps = [affine_map(inner + 1 + spatial, _in_order(role)) for role in roles]

    def body(names: list[str]) -> None:
        term = product(printer, node, names)
        total = printer.temporary(f"{plain_operation('add', kind.dtype)} {names[2]}, {term} : {element(kind.dtype)}")
        printer.emit(f"linalg.yield {total} : {element(kind.dtype)}")

    loops = ["parallel"] * inner + ["reduction"] * (1 + spatial)
    operands = list(zip((left, right, init), grouped, strict=True))
    text = generic_text(printer, maps, loops, operands, body, printer.discardable(node))
    for step, _ in reshape_steps(grouped[2], kind):
        text = step.format(printer.temporary(text))
    printer.assign(node, text)


def _padded_image(printer: UpstreamPrinter, node: Node, kind: TensorType) -> tuple[str, TensorType]:
    """Add operations that pad the image and, if it is dilated, insert zeros between its elements. Returns its name and
    type.
    """
    attrs = node.attrs
    low, high, interior = ([0] * kind.rank for _ in range(3))
    for position, dim in enumerate(attrs.input_spatial):
        low[dim], high[dim] = attrs.low[position], attrs.high[position]
        interior[dim] = attrs.lhs_dilation[position] - 1
    return padded(printer, printer.operand(node, 0), kind, printer.number(0, kind.dtype), low, high, interior)


def _by_dim(dims: Sequence[int], indices: Iterable[Index]) -> dict[int, Sequence[Index]]:
    return {dim: [index] for dim, index in zip(dims, indices, strict=True)}


def _in_order(roles: Mapping[int, Sequence[Index]]) -> list[Index]:
    return [index for dim in sorted(roles) for index in roles[dim]]


def _split_type(kind: TensorType, roles: Mapping[int, Sequence[Index]], groups: int) -> TensorType:
    """Return the type `kind` with its feature dim split into feature group and feature within the group."""
    sizes: list[int] = []
    for dim, size in enumerate(kind.sizes):
        sizes += [size] if len(roles[dim]) == 1 else [groups, size // groups]
    return kind.with_shape(sizes)


WRITERS: dict[str, Write] = {"reduce_window": write_reduce_window, "convolution": write_convolution}
