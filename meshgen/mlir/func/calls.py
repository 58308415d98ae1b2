"""Importers of function calls, kernel launches, and operations whose result shares memory with an operand
(`meshgen.view`).
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import func
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Node
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import function_type, symbol
from meshgen.mlir.printer import TextPrinter


def _import_call(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, func.CallOp)
    callee = operation.callee.string_value()
    if callee not in importer.reading.module.kernels:
        importer.convert(operation, "call", {"callee": importer.reading.callee(callee)})
        return
    node, body = importer.convert(operation, "kernel", {"kernel": callee}), importer.reading.module.kernels[callee]
    for side, launch_values, kernel_values in (
        ("operands", node.operands, body.inputs),
        ("results", node.results, body.outputs),
    ):
        if (launch_types := [str(v.type) for v in launch_values]) != (
            kernel_types := [str(v.type) for v in kernel_values]
        ):
            message = f"the {side} of @{callee} are ({', '.join(kernel_types)}), but the launch has ({', '.join(launch_types)})"
            importer.fault("MG0104", message, operation)


def _write_call(printer: TextPrinter, node: Node) -> str:
    callee = symbol(node.attrs["kernel" if node.op == "kernel" else "callee"])
    head = f"{printer.results(node)}func.call {callee}({', '.join(printer.names(node.operands))})"
    return (
        f"{head}{printer.attributes(node)} : {function_type(printer.types(node.operands), printer.types(node.results))}"
    )


_VIEWS = {"view": "reshape", "subview": "slice", "join": "concatenate"}


def _write_view(printer: TextPrinter, node: Node) -> str:
    return printer.dialects.writers[_VIEWS[node.op]](printer, node)


def _mark_view(_: TextPrinter, node: Node) -> Mapping[str, str]:
    return {"meshgen.view": ""} if node.op in _VIEWS else {}


def _read_view(importer: Importer, node: Node, attribute: Attribute) -> None:
    node.op = {"slice": "subview", "concatenate": "join"}.get(node.op, "view")


PART = Dialect(
    importers={"func.call": _import_call},
    writers={"kernel": _write_call, "call": _write_call, **dict.fromkeys(_VIEWS, _write_view)},
    node_attr_writers=(_mark_view,),
    node_attrs={"meshgen.view": _read_view},
)
