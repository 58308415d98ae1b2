"""Manifests as JSON and back, exactly.

Reading checks types and bounds, since a digest only says that a file is as it was written, not by whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from meshgen.ir.encode import (
    attrs_from_json,
    attrs_to_json,
    graph_from_json,
    graph_to_json,
    mesh_from_json,
    mesh_to_json,
    sharding_from_json,
    sharding_to_json,
)
from meshgen.ir.graph import DTYPES, Graph, TensorType
from meshgen.runtime.json_values import (
    each_of,
    one_of,
    read_amount,
    read_count,
    read_counts,
    read_flag,
    read_table,
    read_text,
)
from meshgen.runtime.manifest import FORMAT, PARTS_FORMAT, Binary, Binding, Json, Kernel, Manifest, Param, Parts
from meshgen.runtime.plan import Buffer, Exposure, Item, Schedule

# what JSON holds of an item as it is
_ITEM = (
    "op",
    "kernel",
    "inputs",
    "outputs",
    "stream",
    "waits",
    "records",
    "seconds",
    "start",
    "why",
    "source",
    "edges",
)


def manifest_to_json(manifest: Manifest, files: Mapping[str, str]) -> Json:
    """The manifest as JSON values; `files` are the SHA-256 of the other members."""
    plan = manifest.plan
    return {
        "format": FORMAT,
        "name": manifest.name,
        "mesh": mesh_to_json(manifest.mesh),
        "arguments": manifest.arguments,
        "inputs": [_binding_to_json(b) for b in manifest.inputs],
        "outputs": [_binding_to_json(b) for b in manifest.outputs],
        "kernels": {
            name: _kernel_to_json(kernel, files) | {"body": _bare(graph_to_json(plan.kernels[name]))}
            for name, kernel in manifest.kernels.items()
        },
        **_steps_to_json(plan),
        "toolchain": dict(manifest.toolchain),
        "report": dict(manifest.report),
        "files": dict(files),
    }


def parts_to_json(parts: Parts, files: Mapping[str, str]) -> Json:
    """As `manifest_to_json`, for a program on several meshes."""
    rows = [{"mesh": name, "inputs": list(ins), "outputs": list(outs)} for name, ins, outs in parts.parts]
    return {
        "format": PARTS_FORMAT,
        "name": parts.name,
        "parts": rows,
        "report": dict(parts.report),
        "files": dict(files),
    }


def parts_from_json(value: Json) -> Parts:
    """What `parts_to_json` was given. Raises ValueError, with what is wrong, for anything else."""
    try:
        rows = tuple(
            (read_text(v["mesh"]), each_of(v["inputs"], read_count), each_of(v["outputs"], read_count))
            for v in value["parts"]
        )
        found = Parts(read_text(value["name"]), rows, _report_from_json(value["report"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"malformed manifest: {error!r}") from error
    for side in (1, 2):
        numbers = sorted(number for row in rows for number in row[side])
        if numbers != list(range(len(numbers))):
            raise ValueError(
                f"the parts have the numbers {numbers} of the program's {'inputs' if side == 1 else 'outputs'}"
            )
    if len(rows) < 2:
        raise ValueError("a program on several meshes has two parts at least")
    return found


def _bare(value: Any) -> Any:
    """A body without source locations, which would make the file depend on where the program lay.

    NumPy's scalars become 0-d arrays: they mean the same in a body, and one form is checked at load.
    """
    if isinstance(value, list):
        return [_bare(entry) for entry in value]
    if isinstance(value, dict):
        if list(value) == ["scalar"]:
            return {"array": value["scalar"]}
        return {key: _bare(entry) for key, entry in value.items() if key != "loc"}
    return value


def manifest_from_json(value: Json) -> Manifest:
    """The manifest that `manifest_to_json` was given. Raises ValueError, with what is wrong, for anything else."""
    try:
        return _decode(value)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"malformed manifest: {error!r}") from error


def _decode(value: Json) -> Manifest:
    bodies = {str(name): graph_from_json(kernel["body"]) for name, kernel in value["kernels"].items()}
    inputs = tuple(_binding_from_json(b) for b in value["inputs"])
    outputs = tuple(_binding_from_json(b) for b in value["outputs"])
    plan = _steps_from_json(value, bodies, tuple(b.buffer for b in inputs), tuple(b.buffer for b in outputs))
    manifest = Manifest(
        name=read_text(value["name"]),
        mesh=mesh_from_json(value["mesh"]),
        arguments=one_of(value["arguments"], ("local", "global")),
        inputs=inputs,
        outputs=outputs,
        kernels={str(name): _kernel_from_json(kernel) for name, kernel in value["kernels"].items()},
        plan=plan,
        toolchain=read_table(value["toolchain"]),
        report=_report_from_json(value["report"]),
    )
    _check_bindings(manifest)
    return manifest


def _report_from_json(value: Any) -> Json:
    """What is said of the program: as it is, but for the sizes that `run` tells."""
    report = read_table(value)
    if "specialised" in report:
        made = read_table(report["specialised"])
        read_text(made["made"])
        sizes = [*read_table(made["mesh"]).values(), *read_table(made["args"]).values()]
        each_of(sizes, lambda size: read_counts(size) if isinstance(size, list) else read_count(size))
    return report


def _check_bindings(manifest: Manifest) -> None:
    """Buffers hold what the signature says: a shard, or with global arguments the whole of an input."""
    for side in (manifest.inputs, manifest.outputs):
        if len({binding.name for binding in side}) != len(side):
            raise ValueError("two inputs or two outputs have one name")
    for number, binding in enumerate((*manifest.inputs, *manifest.outputs)):
        if binding.buffer >= len(manifest.plan.buffers):
            raise ValueError(f"'{binding.name}' has no buffer {binding.buffer}")
        have = manifest.plan.buffers[binding.buffer].type
        if have != TensorType(binding.local_shape, binding.type.dtype):
            raise ValueError(f"'{binding.name}' has local shape {binding.local_shape}, but its buffer is {have}")
        if binding.sharding.rank != binding.type.rank:
            raise ValueError(f"'{binding.name}' of type {binding.type} has a sharding of rank {binding.sharding.rank}")
        whole = manifest.arguments == "global" and number < len(manifest.inputs)
        sizes = binding.type.sizes
        if binding.local_shape != (sizes if whole else binding.sharding.local_shape(sizes, manifest.mesh)):
            raise ValueError(f"'{binding.name}' of type {binding.type} is not {binding.local_shape} on each device")


def _binding_to_json(b: Binding) -> Json:
    return {
        "name": b.name, "dtype": b.type.dtype, "shape": list(b.type.sizes), "sharding": sharding_to_json(b.sharding),
        "local_shape": list(b.local_shape), "buffer": b.buffer, "stored": b.stored,
    }  # fmt: skip


def _binding_from_json(v: Json) -> Binding:
    return Binding(
        read_text(v["name"]), _type(v), sharding_from_json(v["sharding"]), read_counts(v["local_shape"]), read_count(v["buffer"]),
        read_flag(v["stored"]),
    )  # fmt: skip


def _buffer_to_json(b: Buffer) -> Json:
    return {
        "name": b.name, "dtype": b.type.dtype, "shape": list(b.type.sizes), "bytes": b.type.nbytes,
        "offset": b.offset, "kind": b.kind, "storage": b.storage, "source": b.source,
    }  # fmt: skip


def _buffer_from_json(v: Json) -> Buffer:
    kind = _type(v)
    if v["bytes"] != kind.nbytes:
        raise ValueError(f"{v['bytes']!r} bytes hold no {kind}")
    return Buffer(
        read_text(v["name"]),
        kind,
        read_text(v["kind"]),
        read_count(v["storage"]),
        read_count(v["offset"]),
        read_text(v["source"]),
    )


def _item_to_json(item: Item) -> Json:
    value = {name: getattr(item, name) for name in _ITEM} | {"attrs": attrs_to_json(item.attrs)}
    if item.regions:
        value |= {"regions": [_region_to_json(region) for region in item.regions], "scratch": item.scratch}
    return value


def _region_to_json(plan: Schedule) -> Json:
    """A region's step; its kernels are among those of the module."""
    return _steps_to_json(plan) | {"inputs": list(plan.inputs), "outputs": list(plan.outputs)}


def _steps_to_json(plan: Schedule) -> Json:
    return {
        "buffers": [_buffer_to_json(b) for b in plan.buffers],
        "arena_bytes": plan.arena_bytes,
        "schedule": [_item_to_json(item) for item in plan.items],
        "step_seconds": plan.step_seconds,
        "exposures": [asdict(e) for e in plan.exposures],
    }


def _region_from_json(v: Json, kernels: Mapping[str, Graph]) -> Schedule:
    return _steps_from_json(v, kernels, each_of(v["inputs"], read_count), each_of(v["outputs"], read_count))


def _steps_from_json(
    v: Json, kernels: Mapping[str, Graph], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Schedule:
    return Schedule(
        items=tuple(_item_from_json(item, kernels) for item in v["schedule"]),
        buffers=tuple(_buffer_from_json(b) for b in v["buffers"]),
        arena_bytes=read_count(v["arena_bytes"]),
        inputs=inputs,
        outputs=outputs,
        kernels=kernels,
        step_seconds=read_amount(v["step_seconds"]),
        exposures=each_of(v["exposures"], lambda e: _exposure_from_json(e, len(v["schedule"]))),
    )


def _exposure_from_json(v: Json, items: int) -> Exposure:
    if (item := read_count(v["item"])) >= items:
        raise ValueError(f"there is no item {item}")
    return Exposure(item, read_amount(v["hidden"]), read_amount(v["exposed"]))


def _item_from_json(v: Json, kernels: Mapping[str, Graph]) -> Item:
    return Item(
        op=read_text(v["op"]), kernel=read_text(v["kernel"]), attrs=attrs_from_json(v["attrs"]), inputs=each_of(v["inputs"], read_count),
        outputs=each_of(v["outputs"], read_count), stream=read_count(v["stream"]), waits=each_of(v["waits"], read_count),
        records=None if v["records"] is None else read_count(v["records"]), seconds=read_amount(v["seconds"]),
        start=read_amount(v["start"]), why=read_text(v["why"]), source=read_text(v["source"]),
        edges=each_of(v["edges"], read_count),
        regions=tuple(_region_from_json(region, kernels) for region in v.get("regions", ())),
        scratch=None if v.get("scratch") is None else read_count(v["scratch"]),
    )  # fmt: skip


def _kernel_to_json(kernel: Kernel, files: Mapping[str, str]) -> Json:
    """A binary's digest is repeated beside it, so that a launcher needs to look at one place only."""
    binaries = {arch: asdict(b) | {"sha256": files[b.file]} for arch, b in kernel.binaries.items()}
    return asdict(kernel) | {"binaries": binaries}


def _kernel_from_json(v: Json) -> Kernel:
    grid = read_counts(v["grid"])
    if len(grid) != 3:
        raise ValueError(f"a grid has three sizes, not {grid}")
    return Kernel(
        source=read_text(v["source"]), entry=read_text(v["entry"]), params=tuple(_param_from_json(p) for p in v["params"]),
        grid=(grid[0], grid[1], grid[2]), constants=dict(v["constants"]), num_warps=read_count(v["num_warps"]),
        num_stages=read_count(v["num_stages"]), flops=read_amount(v["flops"]), nbytes=read_amount(v["nbytes"]),
        binaries={str(arch): _binary_from_json(b) for arch, b in v["binaries"].items()},
    )  # fmt: skip


def _param_from_json(v: Json) -> Param:
    kind = one_of(v["kind"], ("operand", "result", "coordinate"))
    return Param(kind, -1 if kind == "coordinate" else read_count(v["index"]), each_of(v["axes"], read_text))


def _binary_from_json(v: Json) -> Binary:
    return Binary(
        read_text(v["file"]), read_count(v["regs"]), read_count(v["spill_bytes"]), read_count(v["stack_bytes"]), read_count(v["shared"]),
        read_count(v["threads"]), dict(v["instructions"]), dict(v["metadata"]),
    )  # fmt: skip


def _type(v: Json) -> TensorType:
    return TensorType(read_counts(v["shape"]), one_of(v["dtype"], tuple(DTYPES)))
