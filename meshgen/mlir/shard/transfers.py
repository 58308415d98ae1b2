"""Reader and printer of transfers between the grids of a program (`meshgen.transfer_send` and `meshgen.transfer_recv`)."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Operation

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Module, Node
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh
from meshgen.mlir.attributes import integer_of, integers
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import array, quoted, symbol
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.shard.attributes import SplitAttr, named, split_text
from meshgen.mlir.shard.collectives import note_reasons
from meshgen.mlir.shard.grid import find_mesh
from meshgen.spec import Sharding


def import_transfer(importer: Importer, op: Operation) -> None:
    reading, grid = importer.reading, op.properties["grid"]
    assert isinstance(grid, SymbolRefAttr)
    peer = find_mesh(importer, grid.string_value(), op)
    value = importer.type(op.operands[0] if op.name == "meshgen.transfer_send" else op.results[0])
    attrs: dict[str, object] = {
        "channel": integer_of(op.properties["channel"]),
        "peer": peer or reading.module.mesh,
        "shape": integers(op.attributes.get("shape")) or value.shape,
    }
    shardings: dict[str, Sharding] = {}
    for name in ("source", "target", "hint"):
        if isinstance(split := op.attributes.get(name), SplitAttr):
            mesh = reading.meshes.get(split.data[0], reading.module.mesh)
            shardings[name] = sharding = named(split.data[1], mesh)
            reading.refuse(sharding.faults([None] * sharding.rank, mesh), op)
    hint = shardings.pop("hint", None)
    node = importer.convert(op, op.name.partition(".")[2], attrs | shardings)
    note_reasons(node, op)
    node.notes = replace(node.notes, hint=hint)
    node.option = None


def write_transfer(printer: TextPrinter, node: Node) -> str:
    attrs, peer, mesh = node.attrs, node.attrs.peer, printer.mesh
    sends = node.op == "transfer_send"
    ends: dict[str, Mesh] = {"source": mesh if sends else peer, "target": peer if sends else mesh, "hint": mesh}
    attributes: dict[str, str] = {"shape": array(attrs.shape)}
    shardings = attrs if node.notes.hint is None else {**attrs, "hint": node.notes.hint}
    attributes |= {name: split_text(shardings[name], side.name) for name, side in ends.items() if name in shardings}
    if node.notes.why:
        attributes["why"] = quoted(node.notes.why)
    head, operands, types = (
        f"{printer.results(node)}meshgen.{node.op}",
        printer.names(node.operands),
        printer.types(node.operands),
    )
    peer_text = f"{symbol(peer.name)} channel = {attrs.channel}{printer.attributes(node, attributes)}"
    results = ", ".join(printer.types(node.results))
    if sends:
        return f"{head} {' after '.join(operands)} to {peer_text} : {', '.join(types)} -> {results}"
    token = f" after {operands[0]} : {types[0]}" if operands else ""
    return f"{head}{token} from {peer_text} -> {results}"


def transfer_faults(module: Module) -> list[Diagnostic]:
    """Return a fault (MG0104) for each transfer that lacks the sharding on its source grid or on its target grid.

    Only before propagation may these be missing.
    """
    transfers = (node for node in all_nodes(module.graph) if node.op in BETWEEN_MESHES)
    missing = (node for node in transfers if None in (node.attrs.source, node.attrs.target))
    return [
        Diagnostic("MG0104", f"meshgen.{node.op} needs its layouts source and target", node.loc) for node in missing
    ]


PART = Dialect(
    importers={"meshgen.transfer_send": import_transfer, "meshgen.transfer_recv": import_transfer},
    writers={"transfer_send": write_transfer, "transfer_recv": write_transfer},
)
