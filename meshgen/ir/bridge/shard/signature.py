"""Whether the signature of a stage's text is whole: how every argument and result lies, and what it is a part of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Module, TensorType, Value
from meshgen.spec import Sharding

LOCAL_STAGES = ("partition", "fuse", "schedule")


def check_signature(module: Module) -> None:
    """Raise ProgramError where the layouts and global types of the ends have gaps or do not fit their local types."""
    sides = (
        ("arguments", module.graph.inputs, module.in_shardings, module.in_types, module.arguments == "global"),
        ("results", module.graph.outputs, module.out_shardings, module.out_types, False),
    )
    faults = [
        fault
        for ends, values, layouts, types, is_whole in sides
        for fault in (
            *_gaps(module.stage, ends, values, layouts, types),
            *(_misfits(module, values, layouts, types, is_whole) if len(layouts) == len(types) == len(values) else ()),
        )
    ]
    if faults:
        raise ProgramError(*faults)


def _gaps(
    stage: str, ends: str, values: list[Value], layouts: list[Sharding], types: list[TensorType]
) -> Iterator[Diagnostic]:
    for name, table, is_needed in (
        ("shard.layout", layouts, stage != "import"),
        ("shard.global", types, stage in LOCAL_STAGES),
    ):
        if len(table) not in ((len(values),) if is_needed else (0, len(values))):
            message = f"{len(table)} of {len(values)} {ends} have {name} at stage '{stage}'"
            hint = "all of them have it" if is_needed else "all of them have it, or none"
            yield Diagnostic("MG0104", message, values[0].loc if values else None, hint=hint)


def _misfits(
    module: Module, values: list[Value], layouts: list[Sharding], types: list[TensorType], is_whole: bool
) -> Iterator[Diagnostic]:
    """Ends whose own type is not the tile of their global type."""
    for value, layout, kind in zip(values, layouts, types, strict=True):
        if found := layout.faults(kind.shape, module.mesh):
            yield from (replace(fault, loc=value.loc) for fault in found)
        elif None not in kind.shape and module.mesh.is_static:
            tile = kind if is_whole else kind.with_shape(layout.local_shape(kind.sizes, module.mesh))
            if tile != value.type:
                message = f"{kind} as {layout} has tiles {tile}, but the type is {value.type}"
                yield Diagnostic("MG0104", message, value.loc)
