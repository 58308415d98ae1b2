"""Conversion of JSON to manifests, the inverse of `manifest_json.py`.

Reading checks types and bounds, because a digest only proves that a file is unchanged, not who wrote it.
Malformed documents raise ValueError, or ModuleError MG0502 with the path in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.encode import attrs_from_json, graph_from_json, mesh_from_json, sharding_from_json, type_from_json
from meshgen.ir.graph import Graph, TensorType
from meshgen.ir.limits import MAX_NESTING
from meshgen.mesh import Mesh
from meshgen.ops.types.attributes import type_faults
from meshgen.runtime.module_file.call_json import call_from_json, require_state, state_from_json
from meshgen.runtime.module_file.json_values import (
    get,
    one_of,
    optional,
    read_amount,
    read_count,
    read_counts,
    read_flag,
    read_list,
    read_name,
    read_plain,
    read_table,
    read_text,
    shown,
    table_of,
)
from meshgen.runtime.module_file.manifest import SCRATCH, Binary, Binding, Form, Json, Kernel, Manifest, Param, Parts
from meshgen.runtime.plan import Buffer, Exposure, Item, Schedule

_ARCH = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")


def parts_from_json(value: Json) -> Parts:
    """Return the manifest of a program on several meshes. The inverse of `parts_to_json`."""
    part_rows = get(value, "parts", lambda value_list: read_list(value_list, _read_part_row))
    call = call_from_json(value, None, None)
    state = state_from_json(value)
    parts = Parts(get(value, "name", read_name), part_rows, get(value, "report", report_from_json), call, state)
    for side, side_name in ((1, "inputs"), (2, "outputs")):
        indices = sorted(index for row in part_rows for index in row[side])
        if indices != list(range(len(indices))):
            raise ValueError(f"each of the program's {side_name} must be in one part")
    if len(part_rows) < 2:
        raise ValueError("a program on several meshes needs at least two parts")
    return parts


def _read_part_row(value: Any) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    inputs, outputs = (get(value, side, lambda v: read_list(v, read_count)) for side in ("inputs", "outputs"))
    return get(value, "mesh", read_name), inputs, outputs


def manifest_from_json(value: Json) -> Manifest:
    """Return the manifest of a single-mesh module. The inverse of `manifest_to_json`."""
    kernels = get(value, "kernels", lambda v: table_of(v, _kernel))
    bodies = {name: graph_from_json(value["kernels"][name].get("body"), f"kernels.{name}.body") for name in kernels}
    for name, body in bodies.items():
        body.template = kernels[name].template
    inputs, outputs = (get(value, side, lambda v: read_list(v, _binding)) for side in ("inputs", "outputs"))
    plan = _steps(value, bodies, tuple(b.buffer for b in inputs), tuple(b.buffer for b in outputs))
    plan = replace(plan, donated=_donated(inputs, outputs))
    manifest = Manifest(
        name=get(value, "name", read_name),
        mesh=get(value, "mesh", read_mesh),
        arguments=get(value, "arguments", lambda v: one_of(v, ("local", "global"))),
        inputs=inputs,
        outputs=outputs,
        kernels=kernels,
        plan=plan,
        toolchain=get(value, "toolchain", lambda v: table_of(v, read_plain)),
        report=get(value, "report", report_from_json),
        call=call_from_json(value, [b.name for b in inputs], len(outputs)),
        state=state_from_json(value),
    )
    for fault in _binding_faults(manifest):
        raise ValueError(fault)
    require_state(manifest.state, {b.name: b.type for b in inputs}, [b.type for b in outputs])
    return manifest


def _donated(inputs: Sequence[Binding], outputs: Sequence[Binding]) -> dict[int, int]:
    """Return a map from the buffer of each donated input to the buffer of the result that is its next value."""
    pairs = {b.buffer: b.donated_to for b in inputs if b.donated_to is not None}
    if len({*pairs.values()}) != len(pairs) or any(result_index >= len(outputs) for result_index in pairs.values()):
        raise ValueError("each argument must be donated to one result")
    return {input_buffer: outputs[result_index].buffer for input_buffer, result_index in pairs.items()}


def read_mesh(value: Any) -> Mesh:
    """Return the mesh of a manifest. Raises ValueError if its name or an axis name is invalid."""
    mesh = mesh_from_json(value)
    for name in (mesh.name, *mesh.names):
        read_name(name)
    return mesh


def report_from_json(value: Any) -> Json:
    """Return the report of a manifest. Only the entries with which `run` and `inspect` compute are checked."""
    report = table_of(value, read_plain)
    if "specialised" in report:
        specialization = report["specialised"]
        get(specialization, "made", read_text)
        get(specialization, "mesh", lambda v: table_of(v, read_count))
        get(specialization, "args", lambda v: table_of(v, read_counts))
    if "tuning" in report:
        get(report, "tuning", lambda kernels: table_of(kernels, lambda kernel: get(kernel, "device", read_text)))
    for name in ("kernels", "distinct_kernels", "ring_bytes", "peak_memory_bytes", "step_seconds"):
        if name in report:
            get(report, name, read_amount)
    if "counts" in report:
        get(report, "counts", lambda v: table_of(v, read_count))
    return report


def _binding_faults(manifest: Manifest) -> Iterator[str]:
    """Yield an error message for each argument or result whose buffer does not match the signature.

    The buffer must have the shape of a shard, or the global shape for inputs of a module with global arguments.
    """
    for side in (manifest.inputs, manifest.outputs):
        if len({binding.name for binding in side}) != len(side):
            yield "names of inputs and of outputs must be distinct"
    for binding in (candidate for candidate in manifest.inputs if candidate.donated_to is not None):
        result = manifest.outputs[binding.donated_to or 0]
        if (binding.type, binding.sharding) != (result.type, result.sharding):
            yield f"'{binding.name}' is donated to '{result.name}' of another type or sharding"
    for index, binding in enumerate((*manifest.inputs, *manifest.outputs)):
        if binding.buffer >= len(manifest.plan.buffers):
            yield f"'{binding.name}' has no buffer {binding.buffer}"
            return
        buffer_type = manifest.plan.buffers[binding.buffer].type
        if buffer_type != TensorType(binding.local_shape, binding.type.dtype):
            yield f"'{binding.name}' has local shape {binding.local_shape}, but its buffer is {buffer_type}"
        yield from (
            f"'{binding.name}': {fault.message}" for fault in binding.sharding.faults(binding.type.sizes, manifest.mesh)
        )
        is_global = manifest.arguments == "global" and index < len(manifest.inputs)
        sizes = binding.type.sizes
        if binding.local_shape != (sizes if is_global else binding.sharding.local_shape(sizes, manifest.mesh)):
            yield f"'{binding.name}' of type {binding.type} does not have local shape {binding.local_shape} on each device"


def _binding(v: Any) -> Binding:
    return Binding(
        get(v, "name", read_name),
        _type(v),
        get(v, "sharding", sharding_from_json),
        get(v, "local_shape", read_counts),
        get(v, "buffer", read_count),
        get(v, "stored", read_flag),
        optional(read_count)(v.get("donated_to")),
    )


def _type(v: Any) -> TensorType:
    """Return the tensor type of a JSON entry with `dtype` and `shape`, in which all sizes must be known."""
    read_counts(get(v, "shape", _read_any_list))
    return type_from_json([get(v, "dtype", read_text), v["shape"]])


def _read_any_list(value: Any) -> list[Any]:
    return list(read_list(value, lambda item: item))


def _steps(v: Any, kernels: Mapping[str, Graph], inputs: tuple[int, ...], outputs: tuple[int, ...], depth: int = 0) -> Schedule:  # fmt: skip
    items = get(v, "schedule", lambda rows: read_list(rows, lambda row: _item(row, kernels, depth)))
    return Schedule(
        items=items,
        buffers=get(v, "buffers", lambda rows: read_list(rows, _buffer)),
        arena_bytes=get(v, "arena_bytes", read_count),
        inputs=inputs,
        outputs=outputs,
        kernels=kernels,
        step_seconds=get(v, "step_seconds", read_amount),
        exposures=get(v, "exposures", lambda rows: read_list(rows, lambda row: _exposure(row, len(items)))),
    )


def _region(v: Any, kernels: Mapping[str, Graph], depth: int) -> Schedule:
    if depth > MAX_NESTING:
        raise ValueError(f"regions are nested more than {MAX_NESTING} deep")
    inputs, outputs = (get(v, side, lambda row: read_list(row, read_count)) for side in ("inputs", "outputs"))
    return _steps(v, kernels, inputs, outputs, depth)


def _buffer(v: Any) -> Buffer:
    tensor_type = _type(v)
    if get(v, "bytes", read_count) != tensor_type.nbytes:
        raise ValueError(f"{v['bytes']} bytes do not fit {tensor_type}")
    return Buffer(
        get(v, "name", read_name),
        tensor_type,
        get(v, "kind", read_text),
        get(v, "storage", read_count),
        get(v, "offset", read_count),
        get(v, "source", read_text),
    )


def _exposure(v: Any, items: int) -> Exposure:
    if (item := get(v, "item", read_count)) >= items:
        raise ValueError(f"unknown item {item}")
    return Exposure(item, get(v, "hidden", read_amount), get(v, "exposed", read_amount))


def _item(v: Any, kernels: Mapping[str, Graph], depth: int) -> Item:
    def read_indices(name: str) -> tuple[int, ...]:
        return get(v, name, lambda row: read_list(row, read_count))

    attrs = get(v, "attrs", attrs_from_json)
    for fault in type_faults(
        attrs,
        {
            "axes": "Names",
            "kind": "str",
            "peer": "Mesh",
            "trips": "int",
            "sliced": "Ints",
            "offsets": "Ints",
            "strides": "Ints",
        },
    ):
        raise ValueError(fault)
    regions = read_list(read_table(v).get("regions", []), lambda row: _region(row, kernels, depth + 1))
    return Item(
        op=get(v, "op", read_name),
        kernel=get(v, "kernel", read_name),
        attrs=attrs,
        inputs=read_indices("inputs"),
        outputs=read_indices("outputs"),
        stream=get(v, "stream", read_count),
        waits=read_indices("waits"),
        records=get(v, "records", optional(read_count)),
        seconds=get(v, "seconds", read_amount),
        start=get(v, "start", read_amount),
        why=get(v, "why", read_text),
        source=get(v, "source", read_text),
        edges=read_indices("edges"),
        regions=regions,
        scratch=optional(read_count)(v.get("scratch")),
    )


def _kernel(v: Any) -> Kernel:
    form, binaries = _form(v), get(v, "binaries", _binaries)
    forms = table_of(v.get("forms", {}), _form)
    if missing_archs := [arch for arch in forms if arch not in binaries]:
        raise ValueError(f"a form for {shown(missing_archs[0])}, for which it has no code")
    return Kernel(
        source=form.source,
        entry=get(v, "entry", read_name),
        params=get(v, "params", lambda rows: read_list(rows, _param)),
        grid=form.grid,
        constants=form.constants,
        num_warps=form.num_warps,
        num_stages=form.num_stages,
        flops=get(v, "flops", read_amount),
        nbytes=get(v, "nbytes", read_amount),
        template=get(v, "template", read_text),
        binaries=binaries,
        forms=forms,
    )


def _form(v: Any) -> Form:
    grid = get(v, "grid", read_counts)
    if len(grid) != 3:
        raise ValueError(f"a grid must have three sizes, got {len(grid)}")
    return Form(
        source=get(v, "source", read_text),
        grid=(grid[0], grid[1], grid[2]),
        constants=get(v, "constants", lambda table: table_of(table, read_plain)),
        num_warps=get(v, "num_warps", read_count),
        num_stages=get(v, "num_stages", read_count),
    )


def _binaries(v: Any) -> dict[str, Binary]:
    binaries = table_of(v, _binary)
    if unknown_archs := [arch for arch in binaries if not _ARCH.fullmatch(arch)]:
        raise ValueError(f"unknown architecture {shown(unknown_archs[0])}")
    return binaries


def _param(v: Any) -> Param:
    kind = get(v, "kind", lambda word: one_of(word, ("operand", "result", "coordinate")))
    index = -1 if kind == "coordinate" else get(v, "index", read_count)
    return Param(kind, index, get(v, "axes", lambda rows: read_list(rows, read_text)))


def _binary(v: Any) -> Binary:
    metadata = get(v, "metadata", lambda table: table_of(table, read_plain))
    for name in SCRATCH:
        optional(read_count)(metadata.get(name))
    return Binary(
        file=get(v, "file", read_text),
        regs=get(v, "regs", read_count),
        spill_bytes=get(v, "spill_bytes", read_count),
        stack_bytes=get(v, "stack_bytes", read_count),
        shared=get(v, "shared", read_count),
        threads=get(v, "threads", read_count),
        instructions=get(v, "instructions", lambda table: table_of(table, read_count)),
        metadata=metadata,
        ptx=read_text(v.get("ptx", "")),
    )
