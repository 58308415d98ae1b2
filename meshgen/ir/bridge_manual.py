"""Manual computations (`sdy.manual_computation`) to and from `manual` nodes.

A node has the attributes `in_shardings`, `out_shardings` (over the manual axes alone) and `axes`, and one region on
local types. Axes that are not manual ("free") stay out of it: there the operands are whole on every device.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, Region, SSAValue

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dialects.sdy import checked
from meshgen.ir.dialects.sdy_attributes import ManualAxesAttr, ShardingPerValueAttr, spell
from meshgen.ir.dialects.sdy_manual import ManualComputationOp, ReturnOp
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import split_ref
from meshgen.spec import Sharding


@imports("sdy.manual_computation")
def _import_manual(importer: Importer, operation: Operation) -> None:
    """One node; what the body uses from around it becomes operands that every device has whole."""
    assert isinstance(operation, ManualComputationOp)
    axes, mesh = operation.manual_axes.data, importer.reading.module.mesh
    for axis in axes:
        if axis not in mesh.names:
            known = ", ".join(mesh.names) or "none"
            importer.fault("MG0202", f"manual axis '{axis}' is not in {mesh}", operation, f"the axes are {known}")
    body, captures = importer.region(operation.body)
    ins = _shardings(importer, operation, operation.in_shardings, operation.operands, axes)
    outs = _shardings(importer, operation, operation.out_shardings, operation.results, axes)
    given = len(body.inputs) - len(captures)
    _check_types(importer, operation, "argument", operation.operands, ins, body.inputs[:given])
    _check_types(importer, operation, "result", operation.results, outs, body.outputs)
    whole = (Sharding.replicated(importer.value(ssa).type.rank) for ssa in captures)
    attrs = {"in_shardings": (*ins, *whole), "out_shardings": outs, "axes": axes}
    importer.convert(operation, "manual", attrs, operands=[*operation.operands, *captures], regions=(body,))


def _shardings(importer: Importer, operation: Operation, attribute: ShardingPerValueAttr, values: Sequence[SSAValue],
               axes: tuple[str, ...]) -> tuple[Sharding, ...]:  # fmt: skip
    """The shardings of the operands or results over the manual axes."""
    bodies = attribute.bodies
    if len(bodies) != len(values):
        importer.fault("MG0104", f"there are {len(bodies)} shardings for {len(values)} values", operation)
        return tuple(Sharding.replicated(importer.type(ssa).rank) for ssa in values)
    wishes = [checked(importer, operation, body, importer.type(s)) for body, s in zip(bodies, values, strict=True)]
    return tuple(_manual_part(importer, operation, wish.sharding, axes) for wish in wishes)


def _manual_part(importer: Importer, operation: Operation, sharding: Sharding, axes: Sequence[str]) -> Sharding:
    """The sharding without free axes, which must be minor to the manual ones."""
    dims: list[tuple[str, ...]] = []
    for dim in sharding.dims:
        manual = tuple(axis for axis in dim if split_ref(axis)[0] in axes)
        if manual != dim[: len(manual)]:
            message = f"dim sharding {list(dim)}: axes that are not manual stand before manual ones ({list(axes)})"
            importer.fault("MG0204", message, operation)
        dims.append(manual)
    return Sharding(tuple(dims), tuple(pair for pair in sharding.partial if split_ref(pair[0])[0] in axes))


def _check_types(importer: Importer, operation: Operation, what: str, outside: Sequence[SSAValue],
                 shardings: Sequence[Sharding], inside: Sequence[Value]) -> None:  # fmt: skip
    """The body's types are those of the tiles, and tiles are even."""
    if len(outside) != len(inside):
        message = f"the body has {len(inside)} {what}s, but the operation {len(outside)}"
        importer.fault("MG0104", message, operation)
        return
    mesh = importer.reading.module.mesh
    if not mesh.is_static:
        importer.fault(
            "MG0201", f"a manual computation over {mesh}: an axis has no size", operation, "give it with --mesh"
        )
    if importer.reading.faults:  # the shardings may name axes that there are not
        return
    for number, (ssa, sharding, value) in enumerate(zip(outside, shardings, inside, strict=True)):
        if message := _type_fault(importer, importer.type(ssa), sharding, value.type):
            importer.fault("MG0204", f"{what} {number} of the body: {message}", operation)


def _type_fault(importer: Importer, kind: TensorType, sharding: Sharding, local: TensorType) -> str:
    mesh = importer.reading.module.mesh
    if None in kind.shape:
        return f"{kind} has sizes that are unknown"
    for dim, size in enumerate(kind.sizes):
        parts = sharding.parts(dim, mesh)
        if size % parts:
            return f"dim {dim} of {kind} has {size} rows, which {parts} devices do not share evenly ({size} % {parts} = {size % parts})"
    tile = kind.with_shape(sharding.local_shape(kind.sizes, mesh))
    return "" if local == tile else f"{kind} split as {sharding} has tiles {tile}, but the body has {local}"


@exports("manual")
def _export_manual(exporter: Exporter, node: Node) -> Operation:
    body = exporter.block(node.regions[0], ReturnOp)
    mesh = exporter.module.mesh.name

    def spelled(shardings: Sequence[Sharding]) -> ShardingPerValueAttr:
        return ShardingPerValueAttr(f"[{', '.join(f'<{spell(sharding, mesh)}>' for sharding in shardings)}]")

    properties = {
        "in_shardings": spelled(node.attrs["in_shardings"]),
        "out_shardings": spelled(node.attrs["out_shardings"]),
        "manual_axes": ManualAxesAttr(node.attrs["axes"]),
    }
    return ManualComputationOp.create(
        operands=exporter.operands(node),
        result_types=exporter.types(node.results),
        properties=properties,
        regions=[Region(body)],
    )
