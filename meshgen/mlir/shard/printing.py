"""Printer of the collectives and other mesh operations of the `shard` dialect."""

from __future__ import annotations

from functools import partial

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import array, function_type, listed, quoted, symbol
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.shard.attributes import split_text
from meshgen.mlir.shard.collective_ops import COLLECTIVES, KIND_NAMES, QUERIES, ROOTED, ROOTS, SHIFT, OnGroup, node_of
from meshgen.mlir.shard.grid import axis_number, has_sub_axes, numbered


def _text(printer: TextPrinter, node: Node, name: str, clauses: str, types: str, extra: dict[str, str] | None = None, *,
          has_axes: bool = True) -> str:  # fmt: skip
    """Return the text of an operation: `%r = NAME %a on @mesh grid_axes = [0] CLAUSES {...} : TYPES`.

    The attributes in braces are `extra`, the axes if some of them are sub-axes, and the reasons and edges noted on the
    node.
    """
    results, mesh, axes = printer.results(node), printer.mesh, axes_of(node.attrs)
    operands = f" {', '.join(printer.names(node.operands))}" if node.operands else ""
    numbers = [axis_number(axis, mesh) for axis in axes]
    group = f" on {symbol(mesh.name)}" + (f" grid_axes = {numbers}" if has_axes and numbers else "")
    attribute_texts: dict[str, str] = {}
    if has_sub_axes(axes, mesh):
        attribute_texts["axes"] = listed(map(quoted, axes))
    if node.notes.why:
        attribute_texts["why"] = quoted(node.notes.why)
    if node.notes.edges:
        attribute_texts["edges"] = array(node.notes.edges)
    attributes = printer.attributes(node, attribute_texts | (extra or {}))
    return f"{results}{name}{operands}{group}{clauses}{attributes} : {types}"


def _arrow(printer: TextPrinter, node: Node) -> str:
    return f"{printer.type(node.operands[0])} -> {printer.type(node.result)}"


def _result(printer: TextPrinter, node: Node) -> str:
    return printer.type(node.result)


def _function(printer: TextPrinter, node: Node) -> str:
    return function_type(printer.types(node.operands), printer.types(node.results))


def _write_collective(printer: TextPrinter, node: Node, operation: type[OnGroup]) -> str:
    if len(node.operands) > 1:
        return _write_grouped(printer, node)
    types = _function if operation.name in ROOTS else _arrow if node.operands else _result
    return _text(printer, node, operation.name, operation.clauses(node.attrs), types(printer, node))


def _write_grouped(printer: TextPrinter, node: Node) -> str:
    clauses = f" axis = {node.attrs.dim}" if "dim" in node.attrs else ""
    clauses += f" reduction = {KIND_NAMES[node.attrs.kind]}" if "kind" in node.attrs else ""
    return _text(printer, node, f'meshgen.grouped "{node.op}"', clauses, _function(printer, node))


def _write_shift(printer: TextPrinter, node: Node) -> str:
    numbered_axis = {"shift_axis": axis_number(node.attrs.shift_axis, printer.mesh)}
    return _text(printer, node, "shard.shift", SHIFT.clauses({**node.attrs, **numbered_axis}), _arrow(printer, node))


def _write_move(printer: TextPrinter, node: Node) -> str:
    """Return the text of a `permute` or `retile`. If its types already state the shardings, they are not repeated."""
    attrs, mesh, attributes = node.attrs, printer.mesh.name, dict[str, str]()
    typed = (node.operands[0].sharding, node.result.sharding, node.result.type.shape)
    if typed != (attrs.source, attrs.target, attrs.shape):
        attributes = {name: split_text(attrs[name], mesh) for name in ("source", "target")} | {
            "shape": array(attrs.shape)
        }
    return _text(printer, node, f"meshgen.{node.op}", "", _arrow(printer, node), attributes, has_axes=False)


def _write_update_halo(printer: TextPrinter, node: Node) -> str:
    sharding, shape = node.attrs.sharding, node.attrs.shape
    halo = [size for dim, pair in enumerate(sharding.halo) if sharding.dims[dim] for size in pair]
    clauses = f" split_axes = {numbered(sharding.dims, printer.mesh)}" + (f" halo_sizes = {halo}" if halo else "")
    attributes: dict[str, str] = {}
    if (node.result.sharding, node.result.type.shape) != (sharding, shape):
        attributes = {"sharding": split_text(sharding, printer.mesh.name), "shape": array(shape)}
    types = " -> ".join(dict.fromkeys((printer.type(node.operands[0]), printer.type(node.result))))
    return _text(printer, node, "shard.update_halo", clauses, types, attributes, has_axes=False)


PART = Dialect(
    writers={
        "shift": _write_shift,
        "permute": _write_move,
        "retile": _write_move,
        "update_halo": _write_update_halo,
        **{
            node_of(operation.name): partial(_write_collective, operation=operation)
            for operation in (*COLLECTIVES, *ROOTED, *QUERIES)
        },
    }
)
