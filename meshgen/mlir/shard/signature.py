"""Attributes of arguments and results that state the signature of a printed program.

meshgen.sharding  the user's annotation: `#meshgen.annotation<...>`, or a plain `#meshgen.split<...>`
meshgen.layout    the sharding of the argument or result, unless its type has an encoding
meshgen.global    the global type of the argument or result, from stage `partition` on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from xdsl.ir import Attribute

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Annotation, Module, TensorType, Value
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.old_names import OLD_PREFIX
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.reader_state import Reading, Slot
from meshgen.mlir.shard.attributes import AnnotationAttr, OnGrid, SplitAttr, annotation_text, named, split_text
from meshgen.mlir.shard.sharding import fitted, typed
from meshgen.spec import Sharding

TYPED_STAGES = ("materialize", "optimize")
LOCAL_STAGES = ("partition", "fuse", "schedule")


def read_annotation(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """Read `meshgen.sharding`, the user's annotation of an argument or result."""
    spec = OnGrid(*attribute.data) if isinstance(attribute, SplitAttr) else None
    if isinstance(attribute, AnnotationAttr):
        spec = attribute.data
    if spec is None:
        return
    mesh = reading.meshes.get(spec.grid, reading.module.mesh)
    sharding = reading.on(spec.grid, fitted(named(spec.sharding, mesh), slot.type.rank))
    reading.annotate(slot, Annotation(sharding, spec.required, spec.open_dims, slot.loc))


class _Ends(NamedTuple):
    """The annotations, shardings, global types and values of all arguments of a module, or of all its results."""

    annotations: Sequence[Annotation | None]
    layouts: list[Sharding]
    types: list[TensorType]
    values: list[Value]


def _ends(module: Module, side: str) -> _Ends:
    if side == "in":
        return _Ends(module.in_annotations, module.in_shardings, module.in_types, module.graph.inputs)
    return _Ends(module.out_annotations, module.out_shardings, module.out_types, module.graph.outputs)


def read_layout(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """Read `meshgen.layout`: append the sharding of an argument or result to the module's list. Slots are read in
    order.
    """
    if isinstance(attribute, SplitAttr):
        mesh = reading.meshes.get(attribute.data[0], reading.module.mesh)
        sharding = fitted(named(attribute.data[1], mesh), slot.type.rank)
        reading.faults += [replace(f, loc=slot.loc) for f in sharding.faults([None] * slot.type.rank, mesh)]
        _ends(reading.module, slot.side).layouts.append(sharding)


def read_global(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """Read `meshgen.global`: append the global type of an argument or result to the module's list."""
    _ends(reading.module, slot.side).types.append(reading.type(attribute))


def write_signature(module: Module, slots: Sequence[Slot]) -> list[Mapping[str, str]]:
    """Return the attributes that state the signature, for each argument or result in `slots`."""
    texts: list[Mapping[str, str]] = []
    is_typed, mesh = None, module.mesh.name
    for slot in slots:
        specs, layouts, types, values = _ends(module, slot.side)
        if is_typed is None:
            is_typed = module.stage in TYPED_STAGES and layouts == list(typed(values))
        attributes: dict[str, str] = {}
        spec = specs[slot.index] if specs else None
        if spec is not None:
            on_grid = OnGrid(spec.sharding.mesh or mesh, spec.sharding, spec.required, spec.open_dims)
            attributes["meshgen.sharding"] = annotation_text(on_grid)
        if layouts and not is_typed:
            attributes["meshgen.layout"] = split_text(layouts[slot.index], mesh)
        if types:
            attributes["meshgen.global"] = tensor_text(types[slot.index])
        texts.append(attributes)
    return texts


def check_signature(module: Module) -> None:
    """Raise ProgramError if shardings or global types of the signature are missing, or contradict the local types."""
    sides = (
        ("arguments", module.graph.inputs, module.in_shardings, module.in_types, module.arguments == "global"),
        ("results", module.graph.outputs, module.out_shardings, module.out_types, False),
    )
    faults = [
        fault
        for ends, values, layouts, types, is_global in sides
        for fault in (
            *_gaps(module.stage, ends, values, layouts, types),
            *(
                _local_type_faults(module, values, layouts, types, is_global)
                if len(layouts) == len(types) == len(values)
                else ()
            ),
        )
    ]
    if faults:
        raise ProgramError(*faults)


def _gaps(
    stage: str, ends: str, values: list[Value], layouts: list[Sharding], types: list[TensorType]
) -> Iterator[Diagnostic]:
    for name, table, is_needed in (
        ("meshgen.layout", layouts, stage != "import"),
        ("meshgen.global", types, stage in LOCAL_STAGES),
    ):
        if len(table) not in ((len(values),) if is_needed else (0, len(values))):
            message = f"{len(table)} of {len(values)} {ends} have {name} at stage '{stage}'"
            hint = "give it to all of them" if is_needed else "give it to all of them, or to none"
            yield Diagnostic("MG0104", message, values[0].loc if values else None, hint=hint)


def _local_type_faults(
    module: Module, values: list[Value], layouts: list[Sharding], types: list[TensorType], is_global: bool
) -> Iterator[Diagnostic]:
    """Yield a fault for each argument or result whose type is not the local tile of the global type.

    With `is_global`, the type must be the global type itself.
    """
    for value, layout, kind in zip(values, layouts, types, strict=True):
        if faults := layout.faults(kind.shape, module.mesh):
            yield from (replace(fault, loc=value.loc) for fault in faults)
        elif None not in kind.shape and module.mesh.is_static:
            tile = kind if is_global else kind.with_shape(layout.local_shape(kind.sizes, module.mesh))
            if tile != value.type:
                message = f"{kind} with sharding {layout} has tiles {tile}, but the type is {value.type}"
                yield Diagnostic("MG0104", message, value.loc)


PART = Dialect(
    slot_attrs={
        f"{prefix}.{name}": read
        for prefix in ("meshgen", OLD_PREFIX)
        for name, read in (("sharding", read_annotation), ("layout", read_layout), ("global", read_global))
    },
    slot_attr_writers=(write_signature,),
)
