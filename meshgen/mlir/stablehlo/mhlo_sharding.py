"""Reader of the attribute `mhlo.sharding`, which states XLA shardings on arguments, results and operations."""

from __future__ import annotations

import re
from dataclasses import replace

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Annotation
from meshgen.mlir.attributes import string_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reader_state import Reading, Slot
from meshgen.mlir.shard.annotations import annotate_result
from meshgen.mlir.stablehlo.calls import target_of
from meshgen.mlir.stablehlo.xla_shardings import MANUAL, manual_axes_of, mesh_of, sharding_of
from meshgen.spec import Sharding

NAME = "mhlo.sharding"
_OPEN = re.compile(r"unspecified_dims=\[([\d,]*)\]")
HINT = "give the mesh of the program with --mesh, or write the sharding as sdy.sharding"


def _find_mesh(reading: Reading, top: Operation) -> None:
    """Declare a mesh that fits the `mhlo.sharding` attributes of a module without mesh declarations."""
    texts = [text for operation in top.walk() for text in _texts(operation)]
    inferred = mesh_of(texts)
    if inferred is not None:
        fitting = [mesh for mesh in reading.user_meshes if mesh.is_static and mesh.size == inferred.size]
        has_fitting_mesh = len(reading.user_meshes) == 1 and fitting
        reading.declare_mesh(
            inferred.name, replace(fitting[0], name=inferred.name) if has_fitting_mesh else inferred, top
        )


def _texts(operation: Operation) -> list[str]:
    attributes = [operation.attributes.get(NAME)]
    for name in ("arg_attrs", "res_attrs"):
        entries = operation.properties.get(name)
        if isinstance(entries, builtin.ArrayAttr):
            attributes += [e.data.get(NAME) for e in entries.data if isinstance(e, builtin.DictionaryAttr)]
    return [attribute.data for attribute in attributes if isinstance(attribute, builtin.StringAttr)]


def open_dims_of(operation: Operation, rank: int) -> tuple[bool, ...]:
    """Return for each dim whether `custom_call @Sharding` leaves it open, or () if no dim is open."""
    listed = _OPEN.search(string_of(operation.properties.get("backend_config")))
    open_dims = [int(word) for word in listed[1].split(",") if word] if listed else []
    return tuple(dim in open_dims for dim in range(rank)) if open_dims else ()


def _parsed_sharding(reading: Reading, attribute: Attribute, rank: int) -> Sharding:
    """Return the sharding that `attribute` states for a tensor of rank `rank`. Raises ValueError if it is invalid."""
    text = string_of(attribute)
    try:
        return sharding_of(text, rank, reading.module.mesh)
    except ValueError as error:
        raise ValueError(f"the sharding '{text}': {error}") from error


def _read_slot(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    # In a per-device program, values are local, and the sharding of the global arrays is unknown.
    if (text := string_of(attribute)) == MANUAL:
        return
    try:
        sharding = _parsed_sharding(reading, attribute, slot.type.rank)
        if manual := manual_axes_of(text, reading.module.mesh):
            raise ValueError(
                f"the sharding '{text}': an argument or result of the program cannot be manual over {list(manual)}"
            )
    except ValueError as error:
        reading.faults.append(Diagnostic("MG0204", str(error), slot.loc, hint=HINT))
        return
    if reading.module.mesh.axes:
        reading.annotate(slot, Annotation(sharding, True, (), slot.loc))


def constrain(importer: Importer, operation: Operation) -> None:
    """Import `custom_call @Sharding` as an annotation of its operand, which later users see. Some of its dims may be
    open.
    """
    rank = importer.type(operation.results[0]).rank
    if (attrs := _attrs(importer, operation, rank, open_dims_of(operation, rank))) is None:
        importer.bind(operation.results[0], importer.value(operation.operands[0]))
    else:
        importer.convert(operation, "annotate", attrs)


def _attrs(
    importer: Importer, operation: Operation, rank: int, open_dims: tuple[bool, ...]
) -> dict[str, object] | None:
    """Return the attributes of the `annotate` node, or None if the sharding is invalid (which is reported) or has no
    effect.
    """
    try:
        sharding = _parsed_sharding(importer.reading, operation.attributes[NAME], rank)
    except ValueError as error:
        importer.fault("MG0204", str(error), operation, HINT)
        return None
    is_unconstrained = string_of(operation.attributes[NAME]) == MANUAL or (
        open_dims and all(open_dims) and not sharding.used_axes
    )
    if is_unconstrained or not importer.reading.module.mesh.axes:
        return None
    return {"sharding": sharding, "required": True, "as_result": True, "open_dims": open_dims if any(open_dims) else ()}


def _read_result(importer: Importer, operation: Operation, attribute: Attribute) -> None:
    """Annotate the result of an operation that has `mhlo.sharding`.

    `custom_call @Sharding` and operations with several results are skipped.
    """
    is_call = operation.name == "stablehlo.custom_call" and target_of(operation) == "Sharding"
    if is_call or len(operation.results) != 1:
        return
    value = importer.value(operation.results[0])
    if (attrs := _attrs(importer, operation, value.type.rank, ())) is not None:
        annotate_result(importer, operation, operation.results[0], attrs)


PART = Dialect(mesh_finders=(_find_mesh,), slot_attrs={NAME: _read_slot}, result_attrs={NAME: _read_result})
