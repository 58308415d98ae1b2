"""Importers of tensor and bufferization operations. `slices.py` has those of slices and padding."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import bufferization
from xdsl.ir import Block, Operation

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, all_computed, computed, fill_number
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.body import Body
from meshgen.mlir.loop_values import Spread, over
from meshgen.ops.types.site import shapes_agree


def _empty(b: Builder, *sizes: Value) -> Value:
    """Emit a tensor of unspecified content: zeros, which are removed if no node uses them."""
    return _filled(b, b.constant(0, b.result.with_shape(())), *sizes)


def _filled(b: Builder, value: Value, *sizes: Value) -> Value:
    """Broadcast `value` to the result type. `sizes` are the sizes of the dynamic dims of the result."""
    kind = b.result
    if len(sizes) != kind.shape.count(None):
        raise Refused("MG0104", f"{len(sizes)} sizes for the dynamic dims of {kind}")
    rest = iter(sizes)
    return b.filled(value, kind, [next(rest) if size is None else size for size in kind.shape])


def _from_elements(b: Builder, *scalars: Value) -> Value:
    """Return a tensor whose elements are `scalars`, in row-major order."""
    parts = [b.emit("reshape", [v], v.type.with_shape((1,))) for v in scalars]
    return b.reshape(b.emit("concatenate", parts, b.result.with_shape((len(parts),)), dim=0), b.result.shape)


def _reshaped(b: Builder, value: Value, *sizes: Value) -> Value:
    """Reshape `value` to the result type. One dynamic size is inferred; if there are several, `sizes` has them."""
    kind = b.result
    if kind.shape.count(None) > 1 and len(sizes) == kind.shape.count(None):
        rest = iter(sizes)
        shape = b.listed([next(rest) if size is None else size for size in kind.shape])
        return b.emit("dynamic_reshape", [value, shape], kind)
    return b.emit("reshape", [value], kind)


def _cast(b: Builder, value: Value) -> Value:
    """Convert a tensor between static and dynamic sizes. A size that is static in one of both types is static in the
    result.
    """
    kind = b.result
    if not shapes_agree(value.type.shape, kind.shape) or value.type.dtype != kind.dtype:
        raise Refused("MG0104", f"{value.type} cannot be cast to {kind}")
    merged = kind.with_shape(a or b for a, b in zip(value.type.shape, kind.shape, strict=False))
    return value if merged == value.type else b.emit("convert", [value], merged)


def _element(b: Builder, value: Value, *indices: Value) -> Value:
    """Return the element of `value` at `indices`, as a 0-d tensor."""
    if not value.type.rank:
        return value
    ones = (1,) * value.type.rank
    element = b.emit("dynamic_slice", [value, *indices], value.type.with_shape(ones), slice_sizes=ones)
    return b.emit("reshape", [element], value.type.with_shape(()))


def _with_element(b: Builder, scalar: Value, target: Value, *indices: Value) -> Value:
    """Return `target` with the element at `indices` replaced by `scalar`."""
    part = b.reshape(scalar, (1,) * target.type.rank)
    return b.emit("dynamic_update_slice", [target, part, *indices], target.type)


def _dim(b: Builder, value: Value, _: Value) -> Value:
    """Return the size of a dim, whose index must be a constant. A dynamic size is computed at run time."""
    dim = fill_number(b.source.operands[1])
    if dim is None or not 0 <= dim < value.type.rank:
        raise Refused("MG0103", "the index of the dim must be a constant")
    size = b.size(value, int(dim))
    return b.constant(size, TensorType((), "i64")) if isinstance(size, int) else size


def _generate(b: Builder, *sizes: Value) -> Value:
    """Emit `tensor.generate`: evaluate its region at every index of the result. `sizes` are the sizes of the dynamic
    dims.
    """
    kind = b.result
    if kind.shape.count(None) != len(sizes):
        raise Refused("MG0104", f"{len(sizes)} sizes for the dynamic dims of {kind}")
    elements = computed_elements(b, b.source.regions[0].block, kind, sizes)
    if elements is None:
        raise Refused("MG0103", "its body is not supported")
    return elements if elements.type.rank else _filled(b, elements, *sizes)


def computed_elements(b: Builder, block: Block, kind: TensorType, extents: Sequence[Value] = ()) -> Value | None:
    """Evaluate a block, which takes one index per dim, at every index of a tensor of type `kind`.

    Args:
        extents: the sizes of the dynamic dims, in order. Without them, the block must not use the indices along these
            dims.
    Returns:
        The tensor, or a 0-d value if all elements are equal. None if the block is unsupported.
    """
    sizes, end = kind.shape, block.last_op
    if end is None or len(end.operands) != 1 or len(block.args) != kind.rank:
        return None
    body = Body(b, block, sizes)
    unused_extents = list(extents)
    for dim, argument in enumerate(block.args):
        indices = TensorType((sizes[dim],), "i64")
        if sizes[dim] is not None:
            iota = b.lazy("iota", [], indices, dim=0)
        elif unused_extents:
            iota = b.lazy("dynamic_iota", [b.listed([unused_extents.pop(0)])], indices, dim=0)
        else:
            continue
        body.computed[argument] = Spread(iota, (dim,))
    yielded = body.value(end.operands[0])
    if yielded is None or not yielded.loops:
        return None if yielded is None else yielded.value
    return over(b, yielded, tuple(range(kind.rank)), sizes)


def _alloc(b: Builder, *_: Value) -> Value:
    """Emit `bufferization.alloc_tensor`: return the tensor that it copies, or a tensor of unspecified content."""
    op = b.source
    assert isinstance(op, bufferization.AllocTensorOp)
    if op.copy is not None:
        return b.importer.value(op.copy)
    return _empty(b, *b.importer.values(op.dynamic_sizes))


def import_materialize(importer: Importer, op: Operation) -> None:
    """Import `materialize_in_destination` as its source. The destination is ignored: the compiler allocates storage
    itself.
    """
    if not op.results:
        raise Refused("MG0103", "storing into a memref is not supported")
    importer.bind(op.results[0], importer.value(op.operands[0]))


PART = Dialect(
    operations=(bufferization.AllocTensorOp, bufferization.MaterializeInDestinationOp),
    importers={
        "tensor.yield": import_nothing,
        "bufferization.alloc_tensor": computed(_alloc),
        "bufferization.materialize_in_destination": import_materialize,
        **all_computed("tensor", {
            "empty": _empty,
            "splat": _filled,
            "from_elements": _from_elements,
            "collapse_shape": _reshaped,
            "expand_shape": _reshaped,
            "cast": _cast,
            "concat": lambda b, *xs: b.emit("concatenate", xs, b.result, dim=b.number("dim")),
            "extract": _element,
            "insert": _with_element,
            "dim": _dim,
            # The second operand is the shape of the result, which its type already states.
            "reshape": lambda b, x, _: b.emit("reshape", [x], b.result),
            "bitcast": lambda b, x: b.bits(x, b.result.dtype),
            "rank": lambda b, x: b.constant(x.type.rank, TensorType((), "i64")),
            "generate": _generate,
        }),
    },
    # The declaration is skipped; loads and stores of globals are unsupported.
    module_ops={"ml_program.global": lambda reading, op: None},
)  # fmt: skip
