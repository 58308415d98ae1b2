"""Importers of collectives that name a device of each group (its root): broadcast, gather, reduce, scatter, send and
recv.

If the root is known only at run time, its index in the group is a value, and all devices of the group communicate. To
send the data of the root, the group sums the bits of all tensors, where devices other than the root have zeros: this is
exact for every element type. Data that only the root should receive is received by all devices, since upstream leaves
it undefined elsewhere. All devices of a group must agree on the root.

Within a block, the n-th `recv` over some axes receives from the n-th `send` over these axes. Without a source it
receives from the first device of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation

from meshgen.errors import Diagnostic
from meshgen.ir.graph import DTYPES, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.integer_folding import constant, entries
from meshgen.mlir.shard.collective_ops import ROOTS, node_of
from meshgen.mlir.shard.collectives import attrs_of, axes_of, emit, emit_on, has_sizes
from meshgen.mlir.shard.grid import mesh_of
from meshgen.mlir.shard.queries import Indices
from meshgen.ops.collective_checks import coordinate_faults

INDEX = TensorType((), "i64")
SEND, RECV = "shard.send", "shard.recv"
Coordinates = Sequence["int | Value"]  # coordinates of a device along the axes of its group


def import_rooted(importer: Importer, op: Operation) -> None:
    """Import a collective with a root."""
    attrs, coordinates = attrs_of(importer, op), _root_coordinates(importer, op)
    if not _has_constant_root(op):
        _by_whole_group(importer, op, attrs, coordinates or (), importer.value(op.operands[0]))
    else:
        emit(
            importer,
            op,
            node_of(op.name),
            attrs if coordinates is None else {**attrs, ROOTS[op.name]: tuple(coordinates)},
        )


def import_send(importer: Importer, op: Operation) -> None:
    """Import a `send`.

    If the device that it or its `recv` names is known only at run time, forward the operand: the `recv` then transfers
    the data.
    """
    received = _partner(op)
    if _has_constant_root(op) and (received is None or _has_constant_root(received)):
        import_rooted(importer, op)
    else:
        _check_coordinates(importer, op, _root_coordinates(importer, op) or ())
        importer.bind(op.results[0], importer.value(op.operands[0]))


def import_recv(importer: Importer, op: Operation) -> None:
    sent, mesh = _partner(op), mesh_of(importer, op)
    axes = axes_of(op, mesh)
    if sent is None:
        message = f"{op.name} has no matching send over {list(axes)} before it in its block"
        importer.fault("MG0104", message, op, "all devices run the same program: send first, then receive")
        importer.bind(op.results[0], importer.value(op.operands[0]))
    elif _has_constant_root(op) and _has_constant_root(sent):
        import_rooted(importer, op)
    else:
        coordinates = _root_coordinates(importer, op)
        _by_whole_group(importer, op, {"axes": axes}, (0,) * len(axes) if coordinates is None else coordinates,
                        importer.value(sent.operands[0]))  # fmt: skip


def _partner(op: Operation) -> Operation | None:
    """Return the `recv` that matches a `send`, or the `send` that matches a `recv`, or None if there is none.

    It is in the same block, over the same axes.
    """
    block = op.parent_block()
    assert block is not None
    candidates = [other for other in block.ops if other.name in (SEND, RECV) and _group(other) == _group(op)]
    sends, receives = ([other for other in candidates if other.name == name] for name in (SEND, RECV))
    same_kind, other_kind = (sends, receives) if op.name == SEND else (receives, sends)
    partner = other_kind[same_kind.index(op)] if same_kind.index(op) < len(other_kind) else None
    sent, received = (op, partner) if op.name == SEND else (partner, op)
    return partner if sent and received and candidates.index(sent) < candidates.index(received) else None


def _group(op: Operation) -> tuple[object, ...]:
    return op.properties["grid"], op.properties.get("grid_axes"), op.attributes.get("axes")


def _has_constant_root(op: Operation) -> bool:
    """Whether the coordinates of the device that `op` names are constants."""
    return all(constant(value) is not None for value in op.operands[1:])


def _root_coordinates(importer: Importer, op: Operation) -> Coordinates | None:
    """Return the coordinates of the device that `op` names, or None for a `recv` that names no source."""
    attribute = op.properties.get(ROOTS[op.name])
    if not isinstance(attribute, DenseArrayBase) or (op.name == RECV and not len(attribute)):
        return None
    coordinates = entries(attribute, op.operands[1:])
    if None in coordinates:
        message = f"{op.name}: {ROOTS[op.name]} has more dynamic entries than operands"
        importer.fault("MG0104", message, op)
        return None
    return [entry if isinstance(entry, int) else importer.value(entry) for entry in coordinates if entry is not None]


def _check_coordinates(importer: Importer, op: Operation, coordinates: Coordinates) -> bool:
    """Whether `coordinates` are those of a device in a group of `op`. Reports the faults if not."""
    mesh = mesh_of(importer, op)
    constant_coordinates = [coordinate if isinstance(coordinate, int) else None for coordinate in coordinates]
    faults = list(coordinate_faults(ROOTS[op.name], constant_coordinates, axes_of(op, mesh), mesh))
    importer.reading.refuse((Diagnostic(code, message) for code, message in faults), op, f"{op.name}: ")
    return not faults and has_sizes(importer, op, axes_of(op, mesh))


def _by_whole_group(
    importer: Importer, op: Operation, attrs: dict[str, Any], coordinates: Coordinates, source: Value
) -> None:
    """Import a collective whose root is known only at run time: all devices of the group communicate."""
    kind, result = importer.type(op.results[0]), source
    if _check_coordinates(importer, op, coordinates):
        root_index = _index_in_group(Builder(importer, op), mesh_of(importer, op), attrs["axes"], coordinates)
        result = _result(importer, op, attrs, root_index, source, kind)
    importer.bind(op.results[0], result)


def _index_in_group(builder: Builder, mesh: Mesh, axes: Sequence[str], coordinates: Coordinates) -> Value:
    """Return the index in its group of the device at `coordinates`: row-major over `axes`, the first of which is the
    most major.
    """
    index = Indices(builder)
    return index.value(index.joined(coordinates, [mesh.axis_size(axis) for axis in axes]))


def _result(importer: Importer, op: Operation, attrs: dict[str, Any], root_index: Value, source: Value,
            kind: TensorType) -> Value:  # fmt: skip
    if op.name == "shard.gather":
        return emit_on(importer, op, source, "all_gather", attrs, kind, None)
    if op.name == "shard.reduce":
        return emit_on(importer, op, source, "all_reduce", attrs, kind, None)
    builder = Builder(importer, op)
    own_index = builder.convert(builder.process_index(attrs["axes"]), "i64")
    bits = _as_bits(builder, source)
    is_root = builder.broadcast(builder.compare("EQ", own_index, root_index), bits.type.shape)
    chosen = builder.select(is_root, bits, builder.constant(0, bits.type))
    name = "reduce_scatter" if op.name == "shard.scatter" else "all_reduce"
    spread = TensorType(kind.shape, bits.type.dtype)
    return _from_bits(builder, emit_on(importer, op, chosen, name, {**attrs, "kind": "sum"}, spread, None), kind)


def _as_bits(builder: Builder, value: Value) -> Value:
    """Return `value` as integers with the same bits. A boolean becomes a byte, 0 or 1."""
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
