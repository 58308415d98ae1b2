"""Calls of functions, launches of kernels, and operations that share memory with their operands (`meshgen.view`)."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import builtin, func
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Node
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.exporter import Exporter


def _import_call(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, func.CallOp)
    callee = operation.callee.string_value()
    if callee not in importer.reading.module.kernels:
        importer.convert(operation, "call", {"callee": importer.reading.callee(callee)})
        return
    node, body = importer.convert(operation, "kernel", {"kernel": callee}), importer.reading.module.kernels[callee]
    for what, here, there in (("operands", node.operands, body.inputs), ("results", node.results, body.outputs)):
        if (given := [str(v.type) for v in here]) != (wanted := [str(v.type) for v in there]):
            message = f"the {what} of @{callee} are ({', '.join(wanted)}), but the launch has ({', '.join(given)})"
            importer.fault("MG0104", message, operation)


def _export_call(exporter: Exporter, node: Node) -> Operation:
    callee = node.attrs["kernel" if node.op == "kernel" else "callee"]
    return func.CallOp(callee, exporter.operands(node), exporter.types(node.results))


def _export_view(exporter: Exporter, node: Node) -> Operation:
    return _as_view(exporter, replace(node, op="reshape"))


def _export_subview(exporter: Exporter, node: Node) -> Operation:
    return _as_view(exporter, replace(node, op="slice"))


def _export_join(exporter: Exporter, node: Node) -> Operation:
    return _as_view(exporter, replace(node, op="concatenate"))


def _as_view(exporter: Exporter, node: Node) -> Operation:
    operation = exporter.dialects.exporters[node.op](exporter, node)
    operation.attributes["meshgen.view"] = builtin.UnitAttr()
    return operation


def _read_view(importer: Importer, node: Node, attribute: Attribute) -> None:
    node.op = {"slice": "subview", "concatenate": "join"}.get(node.op, "view")


PART = Dialect(
    importers={"func.call": _import_call},
    exporters={
        "kernel": _export_call,
        "call": _export_call,
        "view": _export_view,
        "subview": _export_subview,
        "join": _export_join,
    },
    node_attrs={"meshgen.view": _read_view},
)
