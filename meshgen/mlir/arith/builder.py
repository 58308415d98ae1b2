"""Helpers for the importers of all dialects: `Builder`, which emits nodes, and importers that are made from functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from meshgen.ir.builder import Builder as GraphBuilder
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value, is_float
from meshgen.ir.notes import NO_NOTES, Notes
from meshgen.ir.regions import needed_nodes
from meshgen.mlir.attributes import integers, string_of
from meshgen.mlir.conversion import OF_VALUES, Importer
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import ImportOp
from meshgen.mlir.integer_folding import AS_ARITH
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.precision import EXACT
from meshgen.ops.registry import broadcasts

MOVEMENT = ("constant", "broadcast_in_dim", "convert", "reshape", "transpose", "iota", "bitcast_convert")


class Builder(GraphBuilder):
    """A builder of the nodes into which one operation is converted.

    Each node gets the location and the discardable attributes of the operation `source`.
    """

    def __init__(self, importer: Importer, source: Operation) -> None:
        super().__init__(importer.graph)
        self.importer, self.source = importer, source

    @property
    def result(self) -> TensorType:
        """Return the type of the operation's first result."""
        return self.importer.type(self.source.results[0])

    def attribute(self, name: str) -> Attribute | None:
        """Return the property `name` of the operation, or None if it is missing."""
        return self.source.properties.get(name)

    def number(self, name: str) -> float | int | None:
        """Return the value of an integer or float property, or None if it is missing."""
        return scalar_of(self.attribute(name))

    def word(self, name: str) -> str:
        """Return the value of a string property, or "" if it is missing."""
        return string_of(self.attribute(name))

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the values of a property that is a list of integers, or `default` if it is missing."""
        attribute = self.attribute(name)
        return tuple(default) if attribute is None else integers(attribute)

    def append(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: Mapping[str, Any],
               regions: tuple[Graph, ...] = (), notes: Notes = NO_NOTES) -> list[Value]:  # fmt: skip
        results = self.importer.emit(op, operands, types, attrs, self.source, regions)
        # The user's sharding option of an operation applies to its computation, not to the data movement around it.
        if op in MOVEMENT:
            self.importer.graph.nodes[-1].option = None
        if notes is not NO_NOTES:
            self.importer.graph.nodes[-1].notes = notes
        return results

    def lazy(self, op: str, operands: Sequence[Value], result: TensorType, /, **attrs: Any) -> Value:
        """Emit a node that `drop_lazy` removes if no node uses its result."""
        value = self.emit(op, operands, result, **attrs)
        node = self.importer.graph.nodes[-1]
        node.notes = replace(node.notes, lazy=True)
        return value

    def constant(self, number: float, kind: TensorType) -> Value:
        """Emit a splat constant. Reports a fault if `number` is an integer of more than 64 bits.

        MLIR allows such integers in indices and affine maps.
        """
        if isinstance(number, int) and not -(1 << 63) <= number < 1 << 64:
            self.importer.fault("MG0104", f"{self.source.name}: {number} does not fit into 64 bits", self.source)
            number = 0
        scalar = np.asarray(number).astype(kind.numpy_dtype)
        if None in kind.shape:
            return self.broadcast(self.constant(number, kind.with_shape(())), kind.shape)
        array = np.broadcast_to(scalar, kind.sizes)
        return self.lazy("constant", [], kind, value=array)

    def bits(self, value: Value, dtype: str) -> Value:
        """Bitcast `value` to another element type of the same width. A boolean is unchanged, since it has no unsigned
        counterpart.
        """
        return super().bits(value, dtype) if dtype in DTYPES else value

    def broadcast(self, value: Value, shape: Sequence[int | None], dims: Sequence[int] = ()) -> Value:
        """Broadcast `value` to `shape`: dim i of `value` becomes dim `dims[i]` of the result."""
        if value.type.shape == tuple(shape) and list(dims) == list(range(len(shape))):
            return value
        return self.lazy("broadcast_in_dim", [value], value.type.with_shape(shape), dims=tuple(dims))

    def size(self, value: Value, dim: int) -> int | Value:
        """Return the size of dim `dim` of `value`: an integer if it is static, else a 0-d value."""
        if (static_size := value.type.shape[dim]) is not None:
            return static_size
        dynamic_size = self.lazy("get_dimension_size", [value], TensorType((), "i32"), dim=dim)
        return self.lazy("convert", [dynamic_size], TensorType((), "i64"))

    def listed(self, entries: Sequence[int | Value]) -> Value:
        """Concatenate integers and 0-d values into a 1-d i64 tensor."""
        kind = TensorType((len(entries),), "i64")
        if all(isinstance(entry, int) for entry in entries):
            return self.lazy("constant", [], kind, value=np.array(entries, np.int64))
        one = kind.with_shape(())
        values = [
            self.constant(entry, one) if isinstance(entry, int) else self.convert(entry, "i64") for entry in entries
        ]
        parts = [self.lazy("reshape", [value], kind.with_shape((1,))) for value in values]
        return self.lazy("concatenate", parts, kind, dim=0)

    def filled(self, value: Value, kind: TensorType, sizes: Sequence[int | Value]) -> Value:
        """Broadcast the 0-d `value` to the type `kind`. `sizes` has all sizes, including those that are dynamic in
        `kind`.
        """
        if None not in kind.shape:
            return self.broadcast(value, kind.shape)
        return self.lazy("dynamic_broadcast_in_dim", [value, self.listed(sizes)], kind, dims=())

    def together(self, values: Sequence[Value]) -> list[Value]:
        """Broadcast the 0-d values among `values` to the shape of the values of higher rank."""
        shape = next((value.type.shape for value in values if value.type.rank), ())
        return [value if value.type.rank or not shape else self.broadcast(value, shape) for value in values]

    def apply(self, op: str, *operands: Value, dtype: str | None = None, **attrs: Any) -> Value:
        """Emit an element-wise node. The result has the element type of the first operand unless `dtype` is given."""
        values = self.together(operands)
        kind = TensorType(values[0].type.shape, dtype or values[0].type.dtype)
        return self.emit(op, values, kind, **attrs)

    def unsigned(self, op: str, *operands: Value) -> Value:
        """Emit an element-wise node whose integer operands are reinterpreted as unsigned."""
        dtype = operands[0].type.dtype
        return self.bits(self.apply(op, *(self.bits(x, f"u{dtype}") for x in operands)), dtype)

    def reshape(self, value: Value, shape: Sequence[int | None]) -> Value:
        """Reshape `value` to `shape`, unless it already has this shape."""
        kind = value.type.with_shape(shape)
        return value if kind == value.type else self.lazy("reshape", [value], kind)

    def reduce(self, kind: str, value: Value, dims: Sequence[int]) -> Value:
        """Reduce `value` over `dims` with the binary op `kind`."""
        init = self.constant(neutral(kind, value.type.dtype).item(), value.type.with_shape(()))
        shape = value.type.with_shape(size for dim, size in enumerate(value.type.shape) if dim not in dims)
        return self.emit("reduce", [value, init], shape, dims=tuple(dims), kind=kind)

    def dot(self, left: Value, right: Value, result: TensorType, contract: tuple[Sequence[int], Sequence[int]],
            batch: tuple[Sequence[int], Sequence[int]] = ((), ()), precision: tuple[str, ...] = EXACT) -> Value:  # fmt: skip
        """Emit a `dot_general`. `contract` and `batch` are pairs: the dims of the left and those of the right operand."""
        names = ("lhs_contract", "rhs_contract", "lhs_batch", "rhs_batch")
        dims = dict(zip(names, map(tuple, (*contract, *batch)), strict=True))
        return self.emit("dot_general", [left, right], result, **dims, precision=precision)

    def gather(self, table: Value, indices: Value, dims: Sequence[int], vector: int, batch: Sequence[int] = (),
               sizes: Sequence[int] | None = None, result: TensorType | None = None) -> Value:  # fmt: skip
        """Gather slices of `table`: the index tuples in `indices` are positions in the dims `dims` of the table.

        The result has the shape [index dims, remaining dims of the table].

        Args:
            vector: the dim of `indices` that holds an index tuple. It equals the rank of `indices` if `dims` has one
                entry.
            batch: batch dims of the table, which correspond to the first dims of `indices`.
            sizes: the slice size along each dim of the table; by default, slices have the full size of the remaining
                dims.
        """
        collapsed = {*dims, *batch}
        slices = tuple(1 if d in collapsed else size for d, size in enumerate(sizes or table.type.sizes))
        shape = [*indices.type.shape[:vector], *(size for d, size in enumerate(slices) if d not in collapsed)]
        numbering = {
            "offset_dims": tuple(range(vector, len(shape))), "collapsed_slice_dims": tuple(dims), "operand_batching_dims": tuple(batch),
            "start_indices_batching_dims": tuple(range(len(batch))), "start_index_map": tuple(dims), "index_vector_dim": vector,
        }  # fmt: skip
        return self.emit("gather", [table, indices], result or table.type.with_shape(shape), **numbering, slice_sizes=slices)  # fmt: skip

    def replaced(self, table: Value, indices: Value, rows: Value, dims: Sequence[int], vector: int,
                 batch: Sequence[int] = ()) -> Value:  # fmt: skip
        """Return `table` with the slices at `indices` replaced by `rows`: the inverse of `gather`. The indices must be
        unique.
        """
        attrs = {
            "update_window_dims": tuple(range(vector, rows.type.rank)), "inserted_window_dims": tuple(dims), "input_batching_dims": tuple(batch),
            "scatter_indices_batching_dims": tuple(range(len(batch))), "scatter_dims_to_operand_dims": tuple(dims), "index_vector_dim": vector,
            "indices_are_sorted": False, "unique_indices": True,
        }  # fmt: skip
        region = Graph("", [Value(table.type.with_shape(())) for _ in range(2)])
        region.outputs = region.inputs[1:]
        return self.append("scatter", [table, indices, rows], [table.type], attrs, (region,))[0]

    def entry(self, table: np.ndarray[Any, Any], dtype: str, index: Value) -> Value:
        """Emit element `index` of the constant 1-d `table`, as a 0-d value."""
        listed = self.emit("constant", [], TensorType(table.shape, dtype), value=table)
        return self.reshape(self.emit("dynamic_slice", [listed, index], TensorType((1,), dtype), slice_sizes=(1,)), ())

    def process_index(self, axes: Sequence[str]) -> Value:
        """Emit the position of the device in its group over the mesh axes `axes`, as an i32."""
        return self.emit("process_index", [], TensorType((), "i32"), axes=tuple(axes))

    def compare(self, direction: str, left: Value, right: Value) -> Value:
        kind = "FLOAT" if is_float(left.type.dtype) else ""
        return self.apply("compare", left, right, dtype="i1", direction=direction, compare_type=kind)

    def select(self, condition: Value, left: Value, right: Value) -> Value:
        a, b = self.together([left, right])
        if condition.type.rank and not a.type.rank:
            a, b = (self.broadcast(x, condition.type.shape) for x in (a, b))
        return self.emit("select", [condition, a, b], a.type)


Compute = Callable[..., Value | Sequence[Value]]
"""A function that emits the nodes of an operation, given a `Builder` and the operands, and returns its results."""


def computed(compute: Compute) -> ImportOp:
    """Return an importer that binds the results of an operation to those of `compute(builder, *operands)`.

    Operands that are neither tensors nor scalars, such as the shapes of tosa, are not passed.
    """

    def import_computed(importer: Importer, op: Operation) -> None:
        operands = importer.values([operand for operand in op.operands if isinstance(operand.type, OF_VALUES)])
        results = compute(Builder(importer, op), *operands)
        importer.bind_results(op, [results] if isinstance(results, Value) else results)

    return import_computed


def all_computed(dialect: str, functions: Mapping[str, Compute]) -> dict[str, ImportOp]:
    """Return importers by operation name, made from the `Compute` functions in `functions`, which are keyed by
    mnemonic.
    """
    return {f"{dialect}.{mnemonic}": computed(function) for mnemonic, function in functions.items()}


def lifted(builder: Builder, body: Graph, operands: Sequence[Value]) -> Value | str:
    """Apply the region `body`, which computes on scalars, element-wise to `operands`, whole arrays of the same shape.

    Returns the result, or the name of an op in the region that is not element-wise.
    """
    shape = operands[0].type.shape
    values = dict(zip(body.inputs, operands, strict=True))
    for node in needed_nodes(body.nodes, body.outputs, lambda _: False):
        if not broadcasts(node.op):
            return node.op
        kind = TensorType(shape, node.result.type.dtype)
        if node.op == "constant":
            values[node.result] = builder.constant(np.asarray(node.attrs.value).item(), kind)
        else:
            operand_values = [values[v] for v in node.operands]
            add = builder.lazy if node.notes.lazy else builder.emit
            values[node.result] = add(node.op, operand_values, kind, **node.attrs)
    return values[body.outputs[0]]


def mnemonic(op: Operation) -> str:
    """Return the operation's name without the dialect. An operation of the dialect index gets the name of its arith
    equivalent.
    """
    dialect, _, name = op.name.partition(".")
    return AS_ARITH.get(name, name) if dialect == "index" else name


def scalar_of(attribute: Attribute | None) -> float | int | None:
    """Return the value of an integer or float attribute, or None for other attributes."""
    return attribute.value.data if isinstance(attribute, IntegerAttr | FloatAttr) else None


def fill_number(value: SSAValue) -> float | int | None:
    """Return the number with which a tensor is filled, or None if `value` is not known to be filled with a number."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name in ("shard.shard", "tensor.cast", "linalg.fill", "tensor.splat"):
        return fill_number(owner.operands[0])
    if owner.name != "arith.constant":
        return None
    if not isinstance(dense := owner.properties["value"], DenseElements):
        return scalar_of(dense)
    array = dense.data.array
    splat = array.size and len(dense.data.raw) == DTYPES[dense.data.dtype].itemsize
    return array.flat[0].item() if splat else None


def drop_lazy(graph: Graph) -> None:
    """Remove the lazy nodes (`Builder.lazy`) whose results are unused, and turn the others into ordinary nodes."""
    used = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        for region in node.regions:
            drop_lazy(region)
        if node.notes.lazy:
            if not any(result in used for result in node.results):
                continue
            node.notes = replace(node.notes, lazy=False)
        used.update(node.operands)
        kept.append(node)
    graph.nodes[:] = reversed(kept)
