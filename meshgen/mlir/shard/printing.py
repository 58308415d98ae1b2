"""The text of collectives and other mesh operations of the shard dialect, from their nodes."""

from __future__ import annotations

from functools import partial

import numpy as np
from xdsl.dialects.builtin import FloatAttr, f64

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import array, function_type, listed, quoted, symbol
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.shard.attributes import split_text
from meshgen.mlir.shard.collective_specs import KIND_NAMES, SPECS, Spec
from meshgen.mlir.shard.grid import axis_number, has_parts, numbered


def _text(printer: TextPrinter, node: Node, name: str, clauses: str, types: str, said: dict[str, str] | None = None, *,
          has_axes: bool = True) -> str:  # fmt: skip
    """`%r = shard.NAME %a on @mesh grid_axes = [0] CLAUSES {...} : TYPES`, with the reasons among the attributes."""
    results, mesh, axes = printer.results(node), printer.mesh, axes_of(node.attrs)
    operands = f" {', '.join(printer.names(node.operands))}" if node.operands else ""
    numbers = [axis_number(axis, mesh) for axis in axes]
    group = f" on {symbol(mesh.name)}" + (f" grid_axes = {numbers}" if has_axes and numbers else "")
    found: dict[str, str] = {}
    if has_parts(axes, mesh):
        found["axes"] = listed(map(quoted, axes))
    if node.notes.why:
        found["why"] = quoted(node.notes.why)
    if node.notes.edges:
        found["edges"] = array(node.notes.edges)
    attributes = printer.attributes(node, found | (said or {}))
    return f"{results}shard.{name}{operands}{group}{clauses}{attributes} : {types}"


def _arrow(printer: TextPrinter, node: Node) -> str:
    return f"{printer.type(node.operands[0])} -> {printer.type(node.result)}"


def _function(printer: TextPrinter, node: Node) -> str:
    return function_type(printer.types(node.operands), printer.types(node.results))


def _write_collective(printer: TextPrinter, node: Node, spec: Spec) -> str:
    if len(node.operands) > 1:
        return _write_grouped(printer, node)
    attrs = node.attrs
    clauses = f" reduction = {KIND_NAMES[attrs.kind]}" if spec.reduces and attrs.kind != "sum" else ""
    clauses += "".join(f" {name} = {attrs[attr]}" for name, attr in spec.dims)
    if spec.root and (attrs[spec.root[1]] or spec.op != "recv"):  # a `recv` may be from anywhere
        clauses += f" {spec.root[0]} = {list(attrs[spec.root[1]])}"
    name = spec.name.removeprefix("shard.")
    return _text(printer, node, name, clauses, (_function if spec.root else _arrow)(printer, node))


def _write_grouped(printer: TextPrinter, node: Node) -> str:
    clauses = f" axis = {node.attrs.dim}" if "dim" in node.attrs else ""
    clauses += f" reduction = {KIND_NAMES[node.attrs.kind]}" if "kind" in node.attrs else ""
    return _text(printer, node, f'grouped "{node.op}"', clauses, _function(printer, node))


def _write_shift(printer: TextPrinter, node: Node) -> str:
    axis = axis_number(node.attrs.shift_axis, printer.mesh)
    clauses = f" shift_axis = {axis} offset = {node.attrs.offset}{' rotate' if node.attrs.rotate else ''}"
    return _text(printer, node, "shift", clauses, _arrow(printer, node))


def _write_permute_pairs(printer: TextPrinter, node: Node) -> str:
    pairs = [list(pair) for pair in node.attrs.pairs]
    return _text(printer, node, "permute_pairs", f" pairs = {pairs}", _arrow(printer, node))


def _write_fetch_rows(printer: TextPrinter, node: Node) -> str:
    attrs = node.attrs
    divisor = f" divisor = {attrs.divisor}" if attrs.divisor != 1 else ""
    clauses = f" dim = {attrs.dim} base = {attrs.base} step = {attrs.step}{divisor} limit = {attrs.limit}"
    clauses += " wrap" if attrs.wrap else ""
    clauses += f" parts = {list(attrs.parts)}" if attrs.parts else ""
    return _text(printer, node, "fetch_rows", clauses, _arrow(printer, node))


def _write_move(printer: TextPrinter, node: Node) -> str:
    """The attributes only where the types do not carry the same."""
    attrs, mesh, said = node.attrs, printer.mesh.name, dict[str, str]()
    if (node.operands[0].sharding, node.result.sharding, node.result.type.shape) != (
        attrs.source,
        attrs.target,
        attrs.shape,
    ):
        said = {
            "source": split_text(attrs.source, mesh),
            "target": split_text(attrs.target, mesh),
            "shape": array(attrs.shape),
        }
    return _text(printer, node, node.op, "", _arrow(printer, node), said, has_axes=False)


def _write_update_halo(printer: TextPrinter, node: Node) -> str:
    sharding, shape = node.attrs.sharding, node.attrs.shape
    halo = [size for dim, pair in enumerate(sharding.halo) if sharding.dims[dim] for size in pair]
    clauses = f" split_axes = {numbered(sharding.dims, printer.mesh)}" + (f" halo_sizes = {halo}" if halo else "")
    said: dict[str, str] = {}
    if (node.result.sharding, node.result.type.shape) != (sharding, shape):
        said = {"sharding": split_text(sharding, printer.mesh.name), "shape": array(shape)}
    types = " -> ".join(dict.fromkeys((printer.type(node.operands[0]), printer.type(node.result))))
    return _text(printer, node, "update_halo", clauses, types, said, has_axes=False)


def _write_query(printer: TextPrinter, node: Node) -> str:
    return _text(printer, node, node.op, "", printer.type(node.result))


def _write_mask_padding(printer: TextPrinter, node: Node) -> str:
    fill = np.asarray(node.attrs.fill).item()
    text = str(FloatAttr(fill, f64)) if isinstance(fill, float) else f"{int(fill)} : i64"
    clauses = f" dim = {node.attrs.dim} size = {node.attrs.size} fill = {text}"
    return _text(printer, node, "mask_padding", clauses, _arrow(printer, node))


PART = Dialect(
    writers={
        "shift": _write_shift,
        "permute_pairs": _write_permute_pairs,
        "fetch_rows": _write_fetch_rows,
        "permute": _write_move,
        "retile": _write_move,
        "update_halo": _write_update_halo,
        "process_index": _write_query,
        "axis_size": _write_query,
        "mask_padding": _write_mask_padding,
        **{spec.op: partial(_write_collective, spec=spec) for spec in SPECS},
    }
)
