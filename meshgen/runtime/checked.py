"""What is in a module's file, checked before it is used: structure and digests, the manifest's values, the bodies of the
kernels, and the schedule, which must be proven free of races and deadlock again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshgen.errors import Diagnostic, MeshgenError, ModuleError, ShardingError
from meshgen.ir.evaluate.evaluator import HANDLERS
from meshgen.ir.graph import Graph, TensorType, dtype_name
from meshgen.ir.infer.inference import verify_node
from meshgen.mesh import Mesh
from meshgen.runtime import tensors
from meshgen.runtime.checker import check
from meshgen.runtime.container import Members, damaged
from meshgen.runtime.json_values import read_json
from meshgen.runtime.manifest import FORMAT, OPEN_FORMAT, PARTS_FORMAT, Kernel, Manifest
from meshgen.runtime.manifest_json import manifest_from_json
from meshgen.runtime.module import Array, LoadedModule
from meshgen.runtime.simulate import rank_handlers


def load_part(container: Members, path: Path, value: dict[str, Any]) -> LoadedModule:
    """The module of one mesh, from its checked manifest."""
    try:
        manifest = manifest_from_json(value)
        constants = {int(n): array for n, array in tensors.decode(container["constants.safetensors"]).items()}
        weights = tensors.decode(container["weights.safetensors"]) if "weights.safetensors" in container else {}
    except ValueError as error:
        raise damaged(path, str(error)[:300]) from error
    except MeshgenError as error:
        raise damaged(path, error.diagnostics[0].message) from error
    one = manifest.mesh.with_sizes({axis.name: 1 for axis in manifest.mesh.axes if axis.size is None})
    try:
        _check_contents(path, container, replace(manifest, mesh=one), constants, weights)
    except ShardingError as error:
        raise damaged(path, error.diagnostics[0].message) from error
    check(manifest.plan, one)
    return LoadedModule(container, manifest, constants, weights)


def checked_manifest(container: Members, path: Path) -> dict[str, Any]:
    """The manifest, when its digest and those of all other members are right and its format is known."""
    if "manifest.json" not in container or "manifest.sha256" not in container:
        raise ModuleError(Diagnostic("MG0501", f"'{path}' is not a meshgen module: it has no manifest"))
    text = container["manifest.json"]
    if hashlib.sha256(text).hexdigest().encode() != bytes(container["manifest.sha256"]):
        raise damaged(path, "the manifest's digest is wrong")
    try:
        value: Any = read_json(bytes(text))
        version, files = value["format"], dict(value["files"])
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"format {version!r}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path, f"the manifest cannot be read ({error!r:.200})") from error
    if version > (newest := _newest_format(value)):
        raise ModuleError(
            Diagnostic(
                "MG0503",
                f"'{path}' has format {version}, but this meshgen reads up to {newest}",
                hint="use a newer meshgen",
            )
        )
    if sorted([*files, "manifest.json", "manifest.sha256"]) != list(container):
        raise damaged(path, "its members are not those that the manifest lists")
    for name, digest in files.items():
        if hashlib.sha256(container[name]).hexdigest() != digest:
            raise damaged(path, f"the digest of '{name}' is wrong")
    return value


def _newest_format(value: Mapping[str, Any]) -> int:
    if "specialisations" in value:
        return OPEN_FORMAT
    return PARTS_FORMAT if "parts" in value else FORMAT


def _check_contents(path: Path, container: Members, manifest: Manifest, constants: Mapping[int, Array],
                    weights: Mapping[str, Array]) -> None:  # fmt: skip
    """Constants, weights, sources and binaries are there and fit; the bodies are well-formed programs."""
    buffers = manifest.plan.buffers
    wanted = [n for n, b in enumerate(buffers) if b.kind == "constant" and b.storage == n]
    if sorted(constants) != wanted or any(_type_of(constants[n]) != buffers[n].type for n in wanted):
        raise damaged(path, "its constants do not fit its buffers")
    stored = {b.name: b.type for b in manifest.inputs if b.stored}
    if {name: _type_of(array) for name, array in weights.items()} != stored:
        raise damaged(path, "its weights do not fit its inputs")
    for kernel in manifest.kernels.values():
        for file in (kernel.source, *(b.file for b in kernel.binaries.values())):
            if file and file not in container:
                raise damaged(path, f"it has no member '{file}'")
    known = (*HANDLERS, *rank_handlers(manifest.mesh, 0))
    for name, body in manifest.plan.kernels.items():
        fault = _body_fault(body, known) or _launch_fault(manifest.kernels[name], body, manifest.mesh)
        if fault:
            raise damaged(path, f"kernel '{name}' is malformed: {fault}")


def _launch_fault(kernel: Kernel, body: Graph, mesh: Mesh) -> str:
    """What is wrong with the launch parameters; empty: nothing."""
    counts = {"operand": len(body.inputs), "result": len(body.outputs)}
    for param in kernel.params:
        if param.kind == "coordinate":
            mesh.group_size(param.axes)  # raises for an unknown axis
        elif not 0 <= param.index < counts[param.kind]:
            return f"it has no {param.kind} {param.index}"
    return ""


def _body_fault(body: Graph, known: Sequence[str]) -> str:
    """What is wrong with a kernel's body, regions included; empty: nothing."""
    if any(None in value.type.shape for value in body.values()):
        return "sizes in it are open"
    for node in body.nodes:
        if node.op not in known:
            return f"'{node.op}' is nothing that a kernel does"
        if faults := verify_node(node):
            return faults[0].message
        if inner := next(filter(None, (_body_fault(region, known) for region in node.regions)), ""):
            return inner
    return ""


def _type_of(array: Array) -> TensorType:
    return TensorType(array.shape, dtype_name(array.dtype))
