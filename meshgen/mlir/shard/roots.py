"""Collectives that name a device of each group: `broadcast`, `gather`, `reduce`, `scatter`, `send` and `recv`.

A device that is known at run time only has a computed number in its group. What it sends to all or some is then
the sum over the group of its tensor's bits, with zeros from the others: exact for every element type. What it alone
receives all receive, for elsewhere the result is undefined. All devices of a group must agree on the number.

The n-th `recv` over some axes in a block takes what the n-th `send` over them sent; without a source, what the
first device of the group did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation

from meshgen.errors import Diagnostic
from meshgen.ir.graph import DTYPES, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.known_integers import constant, entries
from meshgen.mlir.shard.collective_ops import ROOTS, node_of
from meshgen.mlir.shard.collectives import attrs_of, axes_of, emit, emit_on, has_sizes
from meshgen.mlir.shard.grid import mesh_of
from meshgen.mlir.shard.queries import Indices
from meshgen.ops.collective_checks import place_faults

INDEX = TensorType((), "i64")
SEND, RECV = "shard.send", "shard.recv"
Place = Sequence["int | Value"]  # coordinates along the group's axes


def import_rooted(importer: Importer, op: Operation) -> None:
    """A collective that names a device."""
    attrs, place = attrs_of(importer, op), _root_coordinates(importer, op)
    if not _is_known(op):
        _by_whole_group(importer, op, attrs, place or (), importer.value(op.operands[0]))
    else:
        emit(importer, op, node_of(op.name), attrs if place is None else {**attrs, ROOTS[op.name]: tuple(place)})


def import_send(importer: Importer, op: Operation) -> None:
    """Its result is its operand. Nothing is sent yet where the `recv` works by the whole group."""
    received = _partner(op)
    if _is_known(op) and (received is None or _is_known(received)):
        import_rooted(importer, op)
    else:
        _check_place(importer, op, _root_coordinates(importer, op) or ())
        importer.bind(op.results[0], importer.value(op.operands[0]))


def import_recv(importer: Importer, op: Operation) -> None:
    sent, mesh = _partner(op), mesh_of(importer, op)
    axes = axes_of(op, mesh)
    if sent is None:
        message = f"{op.name} has no matching send over {list(axes)} before it in its block"
        importer.fault("MG0104", message, op, "all devices run the same program: send first, then receive")
        importer.bind(op.results[0], importer.value(op.operands[0]))
    elif _is_known(op) and _is_known(sent):
        import_rooted(importer, op)
    else:
        place = _root_coordinates(importer, op)
        _by_whole_group(importer, op, {"axes": axes}, (0,) * len(axes) if place is None else place,
                        importer.value(sent.operands[0]))  # fmt: skip


def _partner(op: Operation) -> Operation | None:
    """The `recv` of a `send`, or the `send` of a `recv`, over the same axes in the same block."""
    block = op.parent_block()
    assert block is not None
    same = [other for other in block.ops if other.name in (SEND, RECV) and _group(other) == _group(op)]
    sends, receives = ([other for other in same if other.name == name] for name in (SEND, RECV))
    mine, others = (sends, receives) if op.name == SEND else (receives, sends)
    found = others[mine.index(op)] if mine.index(op) < len(others) else None
    sent, received = (op, found) if op.name == SEND else (found, op)
    return found if sent and received and same.index(sent) < same.index(received) else None


def _group(op: Operation) -> tuple[object, ...]:
    return op.properties["grid"], op.properties.get("grid_axes"), op.attributes.get("axes")


def _is_known(op: Operation) -> bool:
    """Whether the program says which device it is."""
    return all(constant(value) is not None for value in op.operands[1:])


def _root_coordinates(importer: Importer, op: Operation) -> Place | None:
    """The device's coordinates; None where a `recv` names no source."""
    attribute = op.properties.get(ROOTS[op.name])
    if not isinstance(attribute, DenseArrayBase) or (op.name == RECV and not len(attribute)):
        return None
    found = entries(attribute, op.operands[1:])
    if None in found:
        message = f"{op.name}: {ROOTS[op.name]} has more dynamic entries than operands"
        importer.fault("MG0104", message, op)
        return None
    return [entry if isinstance(entry, int) else importer.value(entry) for entry in found if entry is not None]


def _check_place(importer: Importer, op: Operation, place: Place) -> bool:
    """Whether the place fits the group; collects its faults."""
    mesh = mesh_of(importer, op)
    known = [coordinate if isinstance(coordinate, int) else None for coordinate in place]
    faults = list(place_faults(ROOTS[op.name], known, axes_of(op, mesh), mesh))
    importer.reading.refuse((Diagnostic(code, message) for code, message in faults), op, f"{op.name}: ")
    return not faults and has_sizes(importer, op, axes_of(op, mesh))


def _by_whole_group(importer: Importer, op: Operation, attrs: dict[str, Any], place: Place, source: Value) -> None:
    """Bind the result of a collective with a device that is known at run time only."""
    kind, result = importer.type(op.results[0]), source
    if _check_place(importer, op, place):
        number = _index_in_group(Builder(importer, op), mesh_of(importer, op), attrs["axes"], place)
        result = _result(importer, op, attrs, number, source, kind)
    importer.bind(op.results[0], result)


def _index_in_group(builder: Builder, mesh: Mesh, axes: Sequence[str], place: Place) -> Value:
    """The device's number in its group: mixed radix over the axes, outer to inner."""
    index = Indices(builder)
    return index.value(index.joined(place, [mesh.axis_size(axis) for axis in axes]))


def _result(importer: Importer, op: Operation, attrs: dict[str, Any], number: Value, source: Value,
            kind: TensorType) -> Value:  # fmt: skip
    if op.name == "shard.gather":
        return emit_on(importer, op, source, "all_gather", attrs, kind, None)
    if op.name == "shard.reduce":
        return emit_on(importer, op, source, "all_reduce", attrs, kind, None)
    builder = Builder(importer, op)
    mine = builder.convert(builder.process_index(attrs["axes"]), "i64")
    bits = _as_bits(builder, source)
    is_root = builder.broadcast(builder.compare("EQ", mine, number), bits.type.shape)
    chosen = builder.select(is_root, bits, builder.constant(0, bits.type))
    name = "reduce_scatter" if op.name == "shard.scatter" else "all_reduce"
    spread = TensorType(kind.shape, bits.type.dtype)
    return _from_bits(builder, emit_on(importer, op, chosen, name, {**attrs, "kind": "sum"}, spread, None), kind)


def _as_bits(builder: Builder, value: Value) -> Value:
    """The value's bits as integers of its width; a truth value as a byte."""
    dtype = value.type.dtype
    if dtype == "i1":
        return builder.convert(value, "i8")
    return value if dtype.startswith(("i", "ui")) else builder.bits(value, f"ui{8 * DTYPES[dtype].itemsize}")


def _from_bits(builder: Builder, value: Value, kind: TensorType) -> Value:
    if kind.dtype == "i1":
        return builder.compare("NE", value, builder.constant(0, value.type))
    return builder.bits(value, kind.dtype)


PART = Dialect(
    importers={
        **dict.fromkeys((name for name in ROOTS if name not in (SEND, RECV)), import_rooted),
        SEND: import_send,
        RECV: import_recv,
    }
)
