"""Readers of tensor operations; slices and padding are in `slices.py`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder, fill_number, finish, kind_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.body import Body
from meshgen.mlir.reading import Reading
from meshgen.mlir.spread import Spread, over
from meshgen.ops.types.site import shapes_agree


def import_empty(importer: Importer, op: Operation) -> None:
    """A tensor without defined content: zeros, and only where something reads it."""
    builder, kind = Builder(importer, op), kind_of(importer, op.results[0].type)
    finish(importer, op, filled(importer, op, builder.constant(0, kind.with_shape(())), kind, op.operands))


def import_splat(importer: Importer, op: Operation) -> None:
    kind = kind_of(importer, op.results[0].type)
    value, *sizes = op.operands
    finish(importer, op, filled(importer, op, importer.value(value), kind, sizes))


def filled(importer: Importer, op: Operation, value: Value, kind: TensorType, sizes: Sequence[SSAValue]) -> Value:
    """A tensor that is `value` everywhere; `sizes` are those of its open dims."""
    if len(sizes) != kind.shape.count(None):
        importer.fault("MG0104", f"{op.name}: {len(sizes)} sizes for the dynamic dims of {kind}", op)
        return Builder(importer, op).broadcast(value, kind.shape)
    rest = iter(importer.values(sizes))
    return Builder(importer, op).filled(value, kind, [next(rest) if size is None else size for size in kind.shape])


def import_from_elements(importer: Importer, op: Operation) -> None:
    """Scalars side by side."""
    builder, kind = Builder(importer, op), kind_of(importer, op.results[0].type)
    parts = [builder.emit("reshape", [v], v.type.with_shape((1,))) for v in importer.values(op.operands)]
    flat = builder.emit("concatenate", parts, kind.with_shape((len(parts),)), dim=0)
    finish(importer, op, builder.reshape(flat, kind.shape))


def import_reshape(importer: Importer, op: Operation) -> None:
    """One open size follows from the others; several are operands."""
    kind = kind_of(importer, op.results[0].type)
    value, *sizes = importer.values(op.operands)
    builder = Builder(importer, op)
    if kind.shape.count(None) > 1 and len(sizes) == kind.shape.count(None):
        rest = iter(sizes)
        shape = builder.listed([next(rest) if size is None else size for size in kind.shape])
        finish(importer, op, builder.emit("dynamic_reshape", [value, shape], kind))
    else:
        finish(importer, op, builder.emit("reshape", [value], kind))


def import_cast(importer: Importer, op: Operation) -> None:
    """Between known and unknown sizes of the same tensor: a size that is known stays known."""
    value, kind = importer.value(op.operands[0]), kind_of(importer, op.results[0].type)
    if not shapes_agree(value.type.shape, kind.shape) or value.type.dtype != kind.dtype:
        importer.fault("MG0104", f"tensor.cast: {value.type} is not {kind}", op)
    known = kind.with_shape(a or b for a, b in zip(value.type.shape, kind.shape, strict=False))
    finish(importer, op, value if known == value.type else Builder(importer, op).emit("convert", [value], known))


def import_concat(importer: Importer, op: Operation) -> None:
    dim = op.properties["dim"]
    assert isinstance(dim, IntegerAttr)
    values, kind = importer.values(op.operands), kind_of(importer, op.results[0].type)
    finish(importer, op, Builder(importer, op).emit("concatenate", values, kind, dim=dim.value.data))


def import_extract(importer: Importer, op: Operation) -> None:
    """One element as a 0-d tensor."""
    value, *places = importer.values(op.operands)
    builder, ones = Builder(importer, op), (1,) * value.type.rank
    found = value
    if ones:
        found = builder.emit("dynamic_slice", [value, *places], value.type.with_shape(ones), slice_sizes=ones)
        found = builder.emit("reshape", [found], value.type.with_shape(()))
    finish(importer, op, found)


def import_insert(importer: Importer, op: Operation) -> None:
    """One element replaced."""
    scalar, target, *places = importer.values(op.operands)
    builder, ones = Builder(importer, op), (1,) * target.type.rank
    part = builder.reshape(scalar, ones)
    finish(importer, op, builder.emit("dynamic_update_slice", [target, part, *places], target.type))


def import_dim(importer: Importer, op: Operation) -> None:
    """The size of a dim: of an open one the number that it gets."""
    assert isinstance(op, tensor.DimOp)
    number, shape = fill_number(op.index), importer.type(op.source).shape
    if number is None or not 0 <= number < len(shape):
        importer.fault("MG0103", "tensor.dim: the index of the dim must be a constant", op)
        return
    builder, value = Builder(importer, op), importer.value(op.source)
    size = builder.size(value, int(number))
    finish(importer, op, builder.constant(size, TensorType((), "i64")) if isinstance(size, int) else size)


def import_tensor_reshape(importer: Importer, op: Operation) -> None:
    """The second operand only repeats the result's shape."""
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    finish(importer, op, Builder(importer, op).emit("reshape", [value], kind))


def import_bitcast(importer: Importer, op: Operation) -> None:
    """The same bits under another element type of the same width."""
    value, kind = importer.value(op.operands[0]), kind_of(importer, op.results[0].type)
    finish(importer, op, Builder(importer, op).bits(value, kind.dtype))


def import_rank(importer: Importer, op: Operation) -> None:
    rank = importer.type(op.operands[0]).rank
    finish(importer, op, Builder(importer, op).constant(rank, TensorType((), "i64")))


def import_generate(importer: Importer, op: Operation) -> None:
    """A value for every place; the operands are the sizes of open dims."""
    kind, sizes = importer.type(op.results[0]), importer.values(op.operands)
    is_whole = kind.shape.count(None) == len(sizes)
    found = computed_places(importer, op, op.regions[0].block, kind, sizes) if is_whole else None
    if found is None:
        message = "its body is not supported" if is_whole else f"{len(sizes)} sizes for the dynamic dims of {kind}"
        importer.fault("MG0103" if is_whole else "MG0104", f"tensor.generate: {message}", op)
        found = Builder(importer, op).constant(0, kind)
    if not found.type.rank:
        left = iter(sizes)
        found = Builder(importer, op).filled(found, kind, [next(left) if n is None else n for n in kind.shape])
    finish(importer, op, found)


def computed_places(
    importer: Importer, op: Operation, block: Block, kind: TensorType, extents: Sequence[Value] = ()
) -> Value | None:
    """The yield of a block for every index of a tensor; 0-d if it is uniform. None: not supported.

    Args: extents: the sizes of open dims, in order; without, no place along these is known.
    """
    builder, sizes, end = Builder(importer, op), kind.shape, block.last_op
    if end is None or len(end.operands) != 1 or len(block.args) != kind.rank:
        return None
    body = Body(builder, block, sizes)
    left = list(extents)
    for dim, argument in enumerate(block.args):
        place = TensorType((sizes[dim],), "i64")
        if sizes[dim] is not None:
            iota = builder.lazy("iota", [], place, dim=0)
        elif left:
            iota = builder.lazy("dynamic_iota", [builder.listed([left.pop(0)])], place, dim=0)
        else:
            continue
        body.known[argument] = Spread(iota, (dim,))
    found = body.value(end.operands[0])
    if found is None or not found.loops:
        return None if found is None else found.value
    return over(builder, found, tuple(range(kind.rank)), sizes)


def import_yield(importer: Importer, op: Operation) -> None:
    """Read with the operation around it."""
    del importer, op


def read_global(reading: Reading, op: Operation) -> None:
    """A global says nothing by itself: what loads or stores one is not read."""
    del reading, op


PART = Dialect(
    importers={
        "tensor.empty": import_empty,
        "tensor.splat": import_splat,
        "tensor.from_elements": import_from_elements,
        "tensor.collapse_shape": import_reshape,
        "tensor.expand_shape": import_reshape,
        "tensor.cast": import_cast,
        "tensor.concat": import_concat,
        "tensor.extract": import_extract,
        "tensor.insert": import_insert,
        "tensor.dim": import_dim,
        "tensor.reshape": import_tensor_reshape,
        "tensor.bitcast": import_bitcast,
        "tensor.rank": import_rank,
        "tensor.generate": import_generate,
        "tensor.yield": import_yield,
    },
    module_ops={"ml_program.global": read_global},
)
