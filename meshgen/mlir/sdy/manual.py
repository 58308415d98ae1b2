"""Convert manual computations (`sdy.manual_computation`) to and from `manual` nodes.

A node has the attributes `axes` (the manual axes), `in_shardings` and `out_shardings` (over the manual axes only), and
one region on local types. An axis that is not manual is called free. If a sharding names free axes or has open dims,
the node also has the attributes `in_free` and `out_free`: for each value, its sharding over the free axes, and which
dims are open. Without these attributes, all values are replicated along the free axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Annotation, Node, Value
from meshgen.mesh import Mesh, split_ref
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import function_type, listed
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.sdy.attributes import ShardingPerValueAttr
from meshgen.mlir.sdy.meshes import find_declared_mesh, meshes_of
from meshgen.mlir.sdy.operations import ManualComputation
from meshgen.mlir.sdy.shardings import checked
from meshgen.mlir.sdy.spelling import spell, spell_axes
from meshgen.ops.manual_tiles import tile_fault
from meshgen.spec import Sharding


def _import_manual(importer: Importer, operation: Operation) -> None:
    """Import a manual computation as one node. Values that its body captures become replicated operands of the node."""
    assert isinstance(operation, ManualComputation)
    in_specs = _annotations_of(importer, operation, operation.in_shardings, operation.operands)
    out_specs = _annotations_of(importer, operation, operation.out_shardings, operation.results)
    axes = _manual_axes(importer, operation)
    mesh, symbols = _mesh(importer, operation, [*in_specs, *out_specs]), _named_meshes(importer.reading, operation)
    if len(symbols) > 1 and any(symbol in importer.reading.reordered for symbol in symbols):
        _refuse_meshes(importer, operation, symbols)
    with importer.reading.over(mesh), importer.reading.numbered_by(next(iter(symbols), "")):
        _import_over_mesh(importer, operation, axes, in_specs, out_specs)


def _named_axes(reading: Reading, operation: Operation) -> tuple[str, tuple[str, ...]]:
    """Return the symbol of the mesh over which a manual computation runs, and its manual axes as the text names them."""
    assert isinstance(operation, ManualComputation)
    return next(iter(_named_meshes(reading, operation)), ""), operation.manual_axes


def _named_meshes(reading: Reading, operation: Operation) -> list[str]:
    """Return the symbols of the meshes over which the shardings of a computation are, without duplicates.

    A sharding names a mesh, or it contains the axes of a declared mesh.
    """
    declared = (mesh if isinstance(mesh, str) else find_declared_mesh(reading, mesh) for mesh in meshes_of(operation))
    return [*dict.fromkeys(symbol for symbol in declared if symbol)]


def _manual_axes(importer: Importer, operation: ManualComputation) -> tuple[str, ...]:
    """Return the manual axes by their names in the mesh of the program, which may be another one over the same devices.

    Reports a fault if an axis is only a sub-axis there.
    """
    symbol, named = _named_axes(importer.reading, operation)
    if duplicates := [axis for index, axis in enumerate(named) if axis in named[:index]]:
        importer.fault("MG0203", f"manual axis '{duplicates[0]}' is named more than once", operation)
    axes = importer.reading.axes(symbol, named)
    if all(split_ref(axis)[2] is None for axis in axes):
        return axes
    message = f"the manual axes {list(named)} of @{symbol} are the parts {list(axes)} of axes of another mesh over the same devices"
    importer.fault("MG0103", message, operation, "declare one mesh, and name its axes everywhere in the program")
    return named


def _mesh(importer: Importer, operation: Operation, specs: Sequence[Annotation]) -> Mesh:
    """Return the mesh that the shardings of a manual computation name. Reports a fault if they name several."""
    named = dict.fromkeys(spec.sharding.mesh for spec in specs if spec.sharding.mesh)
    if len(named) > 1:
        _refuse_meshes(importer, operation, named)
    return importer.reading.mesh_of(Sharding((), mesh=next(iter(named), "")))


def _refuse_meshes(importer: Importer, operation: Operation, names: Iterable[str]) -> None:
    message = f"a manual computation is on one mesh, but names {' and '.join('@' + name for name in names)}"
    hint = "move its operands and results to another mesh outside of it: annotate them there"
    importer.fault("MG0209", message, operation, hint)


def _import_over_mesh(importer: Importer, operation: ManualComputation, axes: tuple[str, ...], in_specs: Sequence[Annotation],
                      out_specs: Sequence[Annotation]) -> None:  # fmt: skip
    """Emit the `manual` node of a computation. The caller has made the mesh of the computation the default mesh."""
    mesh = importer.reading.module.mesh
    for axis in axes:
        if axis not in mesh.names:
            axis_names = ", ".join(mesh.names) or "none"
            importer.fault("MG0202", f"manual axis '{axis}' is not in {mesh}", operation, f"the axes are {axis_names}")
    body, captures = importer.region(operation.regions[0])
    ins, outs = (
        tuple(_manual_part(importer, operation, spec.sharding, axes) for spec in specs)
        for specs in (in_specs, out_specs)
    )
    argument_count = len(body.inputs) - len(captures)
    _check_types(importer, operation, "argument", operation.operands, ins, body.inputs[:argument_count])
    _check_types(importer, operation, "result", operation.results, outs, body.outputs)
    name = next((sharding.mesh for sharding in (*ins, *outs)), "")
    capture_shardings = tuple(
        replace(Sharding.replicated(importer.value(ssa).type.rank), mesh=name) for ssa in captures
    )
    attrs: dict[str, Any] = {"in_shardings": (*ins, *capture_shardings), "out_shardings": outs, "axes": axes}
    if _is_open([*in_specs, *out_specs], axes, mesh):
        opened = tuple((sharding, (True,) * sharding.rank) for sharding in capture_shardings)
        attrs |= {"in_free": (*(_free(w, axes) for w in in_specs), *opened)}
        attrs |= {"out_free": tuple(_free(w, axes) for w in out_specs)}
    importer.convert(operation, "manual", attrs, operands=[*operation.operands, *captures], regions=(body,))


def _is_open(specs: Sequence[Annotation], axes: Sequence[str], mesh: Mesh) -> bool:
    """Whether a sharding names a free axis, or has an open dim, which a free axis may split."""
    named = any(split_ref(a)[0] not in axes for spec in specs for a in spec.sharding.used_axes)
    return named or (any(any(spec.open_dims) for spec in specs) and any(name not in axes for name in mesh.names))


def _free(spec: Annotation, axes: Sequence[str]) -> tuple[Sharding, tuple[bool, ...]]:
    """Return the part of an annotation that concerns free axes: a sharding over them, and which dims are open."""
    dims = tuple(tuple(a for a in dim if split_ref(a)[0] not in axes) for dim in spec.sharding.dims)
    return Sharding(dims), tuple(spec.open_dims) or (False,) * len(dims)


def _annotations_of(
    importer: Importer, operation: Operation, attribute: ShardingPerValueAttr | None, values: Sequence[SSAValue]
) -> list[Annotation]:
    """Return the annotations that `attribute` has for `values`. Reports a fault if the counts differ."""
    bodies = attribute.data if attribute else ()
    if len(bodies) != len(values):
        importer.fault("MG0104", f"there are {len(bodies)} shardings for {len(values)} values", operation)
        return [Annotation(Sharding.replicated(importer.type(ssa).rank)) for ssa in values]
    return [checked(importer, operation, body, importer.type(s)) for body, s in zip(bodies, values, strict=True)]


def _manual_part(importer: Importer, operation: Operation, sharding: Sharding, axes: Sequence[str]) -> Sharding:
    """Return `sharding` without its free axes. Reports a fault if a free axis is more major than a manual axis of its
    dim.
    """
    dims: list[tuple[str, ...]] = []
    for dim in sharding.dims:
        manual = tuple(axis for axis in dim if split_ref(axis)[0] in axes)
        if manual != dim[: len(manual)]:
            message = f"dim sharding {list(dim)}: manual axes ({list(axes)}) must come before the others"
            importer.fault("MG0204", message, operation)
        dims.append(manual)
    partial = tuple(pair for pair in sharding.partial if split_ref(pair[0])[0] in axes)
    return replace(sharding, dims=tuple(dims), partial=partial)


def _check_types(importer: Importer, operation: Operation, role: str, outside: Sequence[SSAValue],
                 shardings: Sequence[Sharding], inside: Sequence[Value]) -> None:  # fmt: skip
    """Report a fault for each argument or result of the body whose type is not the local type of the value outside.

    Up to stage `propagate`, all tiles must have the same size. In later stages the shardings include free axes, which
    may split a dim unevenly.
    """
    mesh, is_even = importer.reading.module.mesh, importer.reading.module.stage in ("import", "propagate")
    if not mesh.is_static:
        importer.fault(
            "MG0201",
            f"a manual computation over {mesh}: the size of an axis is unknown",
            operation,
            "give it with --mesh",
        )
    if importer.reading.faults:  # An earlier fault may be an unknown axis. Local types cannot be computed then.
        return
    for index, (ssa, sharding, value) in enumerate(zip(outside, shardings, inside, strict=True)):
        kind = importer.type(ssa)
        if message := tile_fault(kind, sharding, value.type, mesh, is_even=is_even):
            hint = "write static sizes: they determine those of the tiles" if "unknown" in message else ""
            importer.fault("MG0204", f"{role} {index} of the body: {message}", operation, hint)


def _write_manual(printer: TextPrinter, node: Node) -> str:
    """Return the text of a manual computation.

    sdy.manual_computation(%a) in_shardings=[...] out_shardings=[...] manual_axes={"x"} (%b: type) {...} : (type) ->
    type
    """
    shardings: Sequence[Sharding] = (*node.attrs.in_shardings, *node.attrs.out_shardings)
    mesh = printer.mesh_of(next(iter(shardings), Sharding(())))
    results, operands, (body,) = printer.results(node), ", ".join(printer.names(node.operands)), node.regions
    ins, outs = (_spelled(node, side, mesh) for side in ("in", "out"))
    with printer.over(mesh):
        arguments = ", ".join(map(printer.argument, body.inputs))
        region = printer.region(body, "sdy.return", printer.names(body.inputs))
    clauses = f"in_shardings={ins} out_shardings={outs} manual_axes={{{spell_axes(node.attrs.axes)}}}"
    types = function_type(printer.types(node.operands), printer.types(node.results))
    head = f"{results}sdy.manual_computation({operands}) {clauses} ({arguments}) {region}"
    return f"{head}{printer.attributes(node)} : {types}"


def _spelled(node: Node, side: str, mesh: Mesh) -> str:
    """Return the text of the shardings of the operands (`side` is "in") or results ("out"), over manual and free axes."""
    texts = [
        spell(Sharding(tuple((*a, *b) for a, b in zip(s.dims, f.dims, strict=True)), s.partial), mesh.name, opened)
        for s, f, opened in node.attrs.ends(side)
    ]
    return listed(f"<{text}>" for text in texts)


PART = Dialect(
    importers={"sdy.manual_computation": _import_manual},
    writers={"manual": _write_manual},
    whole_axes={"sdy.manual_computation": _named_axes},
)
