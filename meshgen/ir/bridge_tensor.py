"""Readers of arith, math and tensor operations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from meshgen.errors import Diagnostic
from meshgen.ir import bridge
from meshgen.ir.bridge import Importer, imports
from meshgen.ir.bridge_payload import LAZY, Builder, constant, finish, import_elementwise, kind_of
from meshgen.ir.bridge_shard_sharding import constants
from meshgen.ir.dialects.upstream import ARITH, MATH, TENSOR
from meshgen.ir.graph import Graph, Node, TensorType, Value


@imports("arith.constant")
def import_constant(importer: Importer, op: Operation) -> None:
    finish(importer, op, constant(Builder(importer, op), op, ()))


@imports("tensor.empty")
def import_empty(importer: Importer, op: Operation) -> None:
    """A tensor without defined content: zeros, and only where something reads it."""
    finish(importer, op, Builder(importer, op).constant(0, kind_of(importer, op.results[0].type)))


@imports("tensor.splat")
def import_splat(importer: Importer, op: Operation) -> None:
    kind = kind_of(importer, op.results[0].type)
    finish(importer, op, Builder(importer, op).broadcast(importer.value(op.operands[0]), kind.shape))


@imports("tensor.from_elements")
def import_from_elements(importer: Importer, op: Operation) -> None:
    """Scalars side by side."""
    builder, kind = Builder(importer, op), kind_of(importer, op.results[0].type)
    parts = [builder.node("reshape", [v], v.type.with_shape((1,))) for v in importer.values(op.operands)]
    flat = builder.node("concatenate", parts, kind.with_shape((len(parts),)), dim=0)
    finish(importer, op, flat if kind.shape == flat.type.shape else builder.node("reshape", [flat], kind))


@imports("tensor.collapse_shape", "tensor.expand_shape")
def import_reshape(importer: Importer, op: Operation) -> None:
    kind = kind_of(importer, op.results[0].type)
    finish(importer, op, Builder(importer, op).node("reshape", [importer.value(op.operands[0])], kind))


@imports("tensor.cast")
def import_cast(importer: Importer, op: Operation) -> None:
    """Between a known and an unknown size of the same tensor."""
    value, kind = importer.value(op.operands[0]), kind_of(importer, op.results[0].type)
    if value.type != kind:
        importer.fault("MG0103", f"tensor.cast from {value.type} to {kind}: sizes must be known", op)
    finish(importer, op, value)


@imports("tensor.concat")
def import_concat(importer: Importer, op: Operation) -> None:
    dim = op.properties["dim"]
    assert isinstance(dim, IntegerAttr)
    values, kind = importer.values(op.operands), kind_of(importer, op.results[0].type)
    finish(importer, op, Builder(importer, op).node("concatenate", values, kind, dim=dim.value.data))


def sizes_of(importer: Importer, op: Operation, name: str, dynamic: Sequence[SSAValue]) -> tuple[int, ...] | None:
    """A list of sizes or offsets; a fault where one is not a constant."""
    static = op.properties[name]
    assert isinstance(static, DenseArrayBase)
    faults: list[Diagnostic] = []
    numbers = constants(static, dynamic, f"{op.name}: {name.removeprefix('static_')}", faults)
    for fault in faults:
        importer.fault(fault.code, fault.message, op, fault.hint)
    return None if faults else tuple(numbers)


@imports("tensor.extract_slice")
def import_extract_slice(importer: Importer, op: Operation) -> None:
    """A slice; dims of size 1 that the result does not have are dropped."""
    assert isinstance(op, tensor.ExtractSliceOp)
    builder, value, kind = Builder(importer, op), importer.value(op.source), importer.type(op.result)
    start = sizes_of(importer, op, "static_offsets", op.offsets)
    size = sizes_of(importer, op, "static_sizes", op.sizes)
    stride = sizes_of(importer, op, "static_strides", op.strides)
    if start is None or size is None or stride is None:
        finish(importer, op, builder.constant(0, kind))
        return
    limit = tuple(a + (n - 1) * s + 1 if n else a for a, n, s in zip(start, size, stride, strict=True))
    found = builder.node("slice", [value], value.type.with_shape(size), start=start, limit=limit, stride=stride)
    finish(importer, op, found if size == kind.shape else builder.node("reshape", [found], kind))


@imports("tensor.insert_slice")
def import_insert_slice(importer: Importer, op: Operation) -> None:
    """The destination with a part replaced: a dynamic_update_slice at a constant place."""
    assert isinstance(op, tensor.InsertSliceOp)
    builder = Builder(importer, op)
    source, target = importer.value(op.source), importer.value(op.dest)
    start = sizes_of(importer, op, "static_offsets", op.offsets)
    size = sizes_of(importer, op, "static_sizes", op.sizes)
    stride = sizes_of(importer, op, "static_strides", op.strides)
    if start is None or size is None or stride is None or any(step != 1 for step in stride):
        importer.fault("MG0103", "tensor.insert_slice with strides or unknown sizes is not supported", op)
        finish(importer, op, target)
        return
    part = source if source.type.shape == size else builder.node("reshape", [source], source.type.with_shape(size))
    places = [builder.constant(place, TensorType((), "i64")) for place in start]
    finish(importer, op, builder.node("dynamic_update_slice", [target, part, *places], target.type))


@imports("tensor.extract")
def import_extract(importer: Importer, op: Operation) -> None:
    """One element as a 0-d tensor."""
    value, *places = importer.values(op.operands)
    builder, ones = Builder(importer, op), (1,) * value.type.rank
    found = value
    if ones:
        found = builder.node("dynamic_slice", [value, *places], value.type.with_shape(ones), slice_sizes=ones)
        found = builder.node("reshape", [found], value.type.with_shape(()))
    finish(importer, op, found)


@imports("tensor.pad")
def import_pad(importer: Importer, op: Operation) -> None:
    """Padding with one value, which the region yields."""
    assert isinstance(op, tensor.PadOp)
    builder, value, kind = Builder(importer, op), importer.value(op.source), importer.type(op.result)
    low, high = sizes_of(importer, op, "static_low", op.low), sizes_of(importer, op, "static_high", op.high)
    fill = _yielded(importer, op.region.block)
    if low is None or high is None or fill is None:
        importer.fault("MG0103", "tensor.pad with unknown sizes or a computed value is not supported", op)
        finish(importer, op, builder.constant(0, kind))
        return
    interior = (0,) * kind.rank
    finish(importer, op, builder.node("pad", [value, fill], kind, low=low, high=high, interior=interior))


def _yielded(importer: Importer, block: Block) -> Value | None:
    """The value that a region of constants yields; None if it computes anything."""
    *body, last = block.ops
    if any(each.name != "arith.constant" for each in body):
        return None
    for each in body:
        import_constant(importer, each)
    return importer.value(last.operands[0])


def drop_lazy(graph: Graph) -> None:
    """Take out nodes that were made for what then did not read them, and their marks."""
    used = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        lazy = node.attrs.pop(LAZY, False)
        for region in node.regions:
            drop_lazy(region)
        if lazy and not any(result in used for result in node.results):
            continue
        used.update(node.operands)
        kept.append(node)
    graph.nodes[:] = reversed(kept)


@imports("tensor.yield")
def import_yield(importer: Importer, op: Operation) -> None:
    """Read with the operation around it."""
    del importer, op


bridge.DIALECTS += [ARITH, MATH, TENSOR]
bridge.IMPORTERS.update(
    (operation.name, import_elementwise)
    for dialect in (ARITH, MATH)
    for operation in dialect.operations
    if operation.name != "arith.constant"
)
