"""Conversion of manifests to JSON without loss; `manifest_reading.py` has the inverse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from meshgen.ir.encode import attrs_to_json, graph_to_json, mesh_to_json, sharding_to_json
from meshgen.printable import plain
from meshgen.runtime.module_file.call_json import call_to_json, state_to_json
from meshgen.runtime.module_file.json_values import MAX_NAME
from meshgen.runtime.module_file.manifest import FORMAT, PARTS_FORMAT, Binding, Json, Kernel, Manifest, Parts
from meshgen.runtime.plan import Buffer, Item, Schedule

# Fields of an item that are JSON values already.
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
    """Return a manifest as JSON values. `files` maps the other members of the module to their SHA-256 digests."""
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
        **call_to_json(manifest.call),
        **state_to_json(manifest.state),
        "files": dict(files),
    }


def parts_to_json(parts: Parts, files: Mapping[str, str]) -> Json:
    """Return the manifest of a program on several meshes as JSON values.

    `files` maps the other members of the module to their SHA-256 digests.
    """
    part_entries = [{"mesh": name, "inputs": list(ins), "outputs": list(outs)} for name, ins, outs in parts.parts]
    return {
        "format": PARTS_FORMAT,
        "name": parts.name,
        "parts": part_entries,
        "report": dict(parts.report),
        **call_to_json(parts.call),
        **state_to_json(parts.state),
        "files": dict(files),
    }


def sealed(value: Json) -> dict[str, bytes]:
    """Return the two members `manifest.json` and `manifest.sha256`, the digest of the manifest."""
    # The text has no indentation, because Python's encoder is much slower with it.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return {"manifest.json": text, "manifest.sha256": hashlib.sha256(text).hexdigest().encode()}


def _bare(value: Any) -> Any:
    """Remove source locations from a JSON graph, because they would make the file depend on the program's path.

    NumPy scalars become 0-d arrays, which mean the same in a body, so that the loader has to check only one form.
    """
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, dict):
        if list(value) == ["scalar"]:
            return {"array": value["scalar"]}
        return {key: _bare(item) for key, item in value.items() if key != "loc"}
    return value


def _binding_to_json(b: Binding) -> Json:
    return {
        "name": b.name, "dtype": b.type.dtype, "shape": list(b.type.sizes), "sharding": sharding_to_json(b.sharding),
        "local_shape": list(b.local_shape), "buffer": b.buffer, "stored": b.stored,
        **({} if b.donated_to is None else {"donated_to": b.donated_to}),
    }  # fmt: skip


def _buffer_to_json(b: Buffer) -> Json:
    return {
        "name": plain(b.name, MAX_NAME), "dtype": b.type.dtype, "shape": list(b.type.sizes), "bytes": b.type.nbytes,
        "offset": b.offset, "kind": b.kind, "storage": b.storage, "source": b.source,
    }  # fmt: skip


def _item_to_json(item: Item) -> Json:
    value = {name: getattr(item, name) for name in _ITEM} | {"attrs": attrs_to_json(item.attrs)}
    if item.regions:
        value["regions"] = [_region_to_json(region) for region in item.regions]
    if item.scratch is not None:
        value["scratch"] = item.scratch
    return value


def _region_to_json(plan: Schedule) -> Json:
    """Return the schedule of a region. Its kernels are stored with those of the module."""
    return _steps_to_json(plan) | {"inputs": list(plan.inputs), "outputs": list(plan.outputs)}


def _steps_to_json(plan: Schedule) -> Json:
    return {
        "buffers": [_buffer_to_json(b) for b in plan.buffers],
        "arena_bytes": plan.arena_bytes,
        "schedule": [_item_to_json(item) for item in plan.items],
        "step_seconds": plan.step_seconds,
        "exposures": [e._asdict() for e in plan.exposures],
    }


def _kernel_to_json(kernel: Kernel, files: Mapping[str, str]) -> Json:
    """Return a kernel as JSON. Each binary repeats its digest, for launchers that read only this entry."""
    binaries = {arch: asdict(b) | {"sha256": files[b.file]} for arch, b in kernel.binaries.items()}
    entry = asdict(kernel) | {"binaries": binaries}
    return entry if kernel.forms else {name: value for name, value in entry.items() if name != "forms"}
