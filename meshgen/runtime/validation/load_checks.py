"""Checks of a module's file before use: structure, digests, manifest values and kernel bodies.

The schedule must be proven free of races and deadlocks again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshgen.errors import Diagnostic, MeshgenError, ModuleError, ShardingError
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.runtime.module import Array, LoadedModule
from meshgen.runtime.module_file import limits, tensors
from meshgen.runtime.module_file.container import WEIGHTS
from meshgen.runtime.module_file.json_values import get, read_count, read_json, read_table, read_text, shown, table_of
from meshgen.runtime.module_file.manifest import Manifest
from meshgen.runtime.module_file.manifest_reading import manifest_from_json
from meshgen.runtime.module_file.members import SIGNATURE, Members, damaged
from meshgen.runtime.module_file.stage_texts import FOLDER, stage_of
from meshgen.runtime.module_file.upgrades import newest_format, upgraded
from meshgen.runtime.validation.bodies import body_fault, launch_fault
from meshgen.runtime.validation.checker import check


def load_part(container: Members, path: Path, value: dict[str, Any]) -> LoadedModule:
    """Return the module of one mesh, given the manifest after `checked_manifest`.

    Checks everything else in the module.

    Raises:
        ModuleError: MG0502, the contents are damaged.
        ScheduleError: the schedule has a race or can deadlock.
    """
    with reading(path):
        manifest = manifest_from_json(value)
        constants = _numbered(tensors.decode(container["constants.safetensors"]))
        weights = tensors.decode(container[WEIGHTS]) if WEIGHTS in container else {}
    for fault in limits.faults(manifest):
        raise limits.beyond(path, fault)
    unit_mesh = manifest.mesh.with_sizes({axis.name: 1 for axis in manifest.mesh.axes if axis.size is None})
    try:
        _check_contents(path, container, replace(manifest, mesh=unit_mesh), constants, weights)
    except ShardingError as error:
        raise damaged(path, error.diagnostics[0].message) from error
    check(manifest.plan, unit_mesh)
    return LoadedModule(container, manifest, constants, weights)


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Return a context that converts errors about invalid values to ModuleError MG0502."""
    try:
        yield
    except ValueError as error:
        raise damaged(path, str(error)[:300]) from error
    except MeshgenError as error:
        raise damaged(path, error.diagnostics[0].message) from error


def _numbered(arrays: Mapping[str, Array]) -> dict[int, Array]:
    """Return the constants by buffer index, which is the name of each constant in the file."""
    if invalid := [name for name in arrays if not re.fullmatch(r"0|[1-9]\d{0,9}", name)]:
        raise ValueError(f"constant {shown(invalid[0])} is not named by the number of a buffer")
    return {int(name): array for name, array in arrays.items()}


def checked_manifest(container: Members, path: Path) -> dict[str, Any]:
    """Return the manifest, upgraded to the current format.

    Check its digest, its format and the digests of all members first.

    Raises:
        ModuleError: MG0501, the file is not a module. MG0502, it is damaged. MG0503, its format is unsupported.
    """
    if "manifest.json" not in container or "manifest.sha256" not in container:
        raise ModuleError(Diagnostic("MG0501", f"'{path}' is not a meshgen module: it has no manifest"))
    text = container["manifest.json"]
    if hashlib.sha256(text).hexdigest().encode() != bytes(container["manifest.sha256"]):
        raise damaged(path, "the manifest's digest is wrong")
    try:
        value = read_table(read_json(bytes(text)))
        version, files = get(value, "format", read_count), get(value, "files", lambda v: table_of(v, read_text))
    except ValueError as error:
        raise damaged(path, f"the manifest cannot be read ({str(error)[:200]})") from error
    if version < 1:
        raise damaged(path, f"unknown format {version}")
    if version > (newest := newest_format(value)):
        raise ModuleError(
            Diagnostic(
                "MG0503",
                f"'{path}' has format {version}, but this meshgen reads up to {newest}",
                hint="use a newer meshgen",
            )
        )
    with reading(path):
        manifest = upgraded(value)
    if manifest is None:
        text = (
            f"'{path}' has format {version} of an older meshgen, but this one reads format {newest} and the one before"
        )
        raise ModuleError(Diagnostic("MG0503", text, hint="compile the program again"))
    _check_members(container, path, files)
    return manifest


def _check_members(container: Members, path: Path, files: Mapping[str, str]) -> None:
    """Check that the file has exactly the members in the manifest, with the digests there, and that texts are UTF-8."""
    unlisted = [name for name in ("manifest.json", "manifest.sha256", SIGNATURE) if name in container]
    if sorted([*files, *unlisted]) != list(container):
        raise damaged(path, "its members do not match the manifest")
    for name, digest in files.items():
        content = container[name]
        if hashlib.sha256(content).hexdigest() != digest:
            raise damaged(path, f"the digest of '{name}' is wrong")
        if name.startswith(FOLDER) and stage_of(name) is None:
            raise damaged(path, f"unknown stage '{name}'")
        if name.endswith((".py", ".ptx")):
            _check_text(path, name, content)


def _check_text(path: Path, name: str, content: memoryview) -> None:
    try:
        str(content, "utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, f"'{name}' is not UTF-8 ({error.reason} at byte {error.start})") from error


def _check_contents(path: Path, container: Members, manifest: Manifest, constants: Mapping[int, Array],
                    weights: Mapping[str, Array]) -> None:  # fmt: skip
    """Check that constants, weights, sources and binaries match the manifest, and that kernel bodies are valid."""
    buffers = manifest.plan.buffers
    constant_buffers = [n for n, b in enumerate(buffers) if b.kind == "constant" and b.storage == n]
    if sorted(constants) != constant_buffers or any(
        _type_of(constants[n]) != buffers[n].type for n in constant_buffers
    ):
        raise damaged(path, "its constants do not fit its buffers")
    stored = {b.name: b.type for b in manifest.inputs if b.stored}
    if {name: _type_of(array) for name, array in weights.items()} != stored:
        raise damaged(path, "its weights do not fit its inputs")
    for kernel in manifest.kernels.values():
        for source in (kernel.source, *(variant.source for variant in kernel.forms.values())):
            if source and not (source.startswith("kernels/") and source.endswith(".py")):
                raise damaged(path, f"{shown(source)} is not the source of a kernel")
        for ptx in (binary.ptx for binary in kernel.binaries.values()):
            if ptx and not (ptx.startswith("ptx/") and ptx.endswith(".ptx")):
                raise damaged(path, f"{shown(ptx)} is not the PTX of a kernel")
        for file in kernel.files:
            if file not in container:
                raise damaged(path, f"it has no member {shown(file)}")
    for name, body in manifest.plan.kernels.items():
        fault = body_fault(body, manifest.mesh) or launch_fault(manifest.kernels[name], body, manifest.mesh)
        if fault:
            raise damaged(path, f"kernel '{name}' is malformed: {fault}")


def _type_of(array: Array) -> TensorType:
    return TensorType(array.shape, dtype_name(array.dtype))
