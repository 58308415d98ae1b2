"""Transfers between the grids of a program, to and from nodes."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Node
from meshgen.mesh import Mesh
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.shard.attributes import SplitAttr, encode_split, named
from meshgen.mlir.shard.collectives import note_reasons
from meshgen.mlir.shard.grid import find_mesh
from meshgen.mlir.shard.moves import TransferRecvOp, TransferSendOp
from meshgen.spec import Sharding


def import_transfer(importer: Importer, op: Operation) -> None:
    assert isinstance(op, TransferSendOp | TransferRecvOp)
    reading = importer.reading
    peer = find_mesh(importer, op.grid.string_value(), op)
    value = importer.type(op.input if isinstance(op, TransferSendOp) else op.result)
    shape = op.attributes.get("shape")
    attrs: dict[str, object] = {
        "channel": op.channel.value.data,
        "peer": peer or reading.module.mesh,
        "shape": tuple(shape.get_values()) if isinstance(shape, DenseArrayBase) else value.shape,
    }
    said: dict[str, Sharding] = {}
    for name in ("source", "target", "hint"):
        if isinstance(split := op.attributes.get(name), SplitAttr):
            mesh = reading.meshes.get(split.data[0], reading.module.mesh)
            said[name] = sharding = named(split.data[1], mesh)
            faults = sharding.faults([None] * sharding.rank, mesh)
            reading.faults += [replace(fault, loc=reading.source.locate(op)) for fault in faults]
    hint = said.pop("hint", None)
    node = importer.convert(op, op.name.partition(".")[2], attrs | said)
    note_reasons(node, op)
    node.notes = replace(node.notes, hint=hint)
    node.option = None


def export_transfer(exporter: Exporter, node: Node) -> Operation:
    attrs, peer, mesh = node.attrs, node.attrs.peer, exporter.mesh
    sends = node.op == "transfer_send"
    ends: dict[str, Mesh] = {"source": mesh if sends else peer, "target": peer if sends else mesh, "hint": mesh}
    found: dict[str, Attribute] = {"shape": DenseArrayBase.from_list(i64, list(attrs.shape))}
    said = attrs if node.notes.hint is None else {**attrs, "hint": node.notes.hint}
    found |= {name: encode_split(said[name], side) for name, side in ends.items() if name in said}
    if node.notes.why:
        found["why"] = StringAttr(node.notes.why)
    properties: dict[str, Attribute] = {
        "grid": SymbolRefAttr(peer.name),
        "channel": IntegerAttr(attrs.channel, i64),
    }
    return (TransferSendOp if sends else TransferRecvOp).create(
        operands=exporter.operands(node),
        result_types=exporter.types(node.results),
        properties=properties,
        attributes=found,
    )


PART = Dialect(
    importers={"shard.transfer_send": import_transfer, "shard.transfer_recv": import_transfer},
    exporters={"transfer_send": export_transfer, "transfer_recv": export_transfer},
)
