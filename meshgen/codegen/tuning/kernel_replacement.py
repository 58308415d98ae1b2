"""Replacement of kernels in module files. Only code, launches and the report change.

A file holds one module, or one module for each mesh, specialization or entry function. `modules_of` yields them.
`with_forms` rewrites the file with the changed modules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from meshgen.codegen.packaging.entries import digest, entries_members
from meshgen.codegen.packaging.open_sizes import open_members
from meshgen.codegen.packaging.package import form_member, sealed
from meshgen.codegen.tuning.forms import Form
from meshgen.runtime.entries import decode_entries
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Json, Kernel
from meshgen.runtime.module_file.manifest_json import manifest_to_json
from meshgen.runtime.module_file.members import SIGNATURE, Folder, Held, Members
from meshgen.runtime.module_file.open_manifest import decode_open
from meshgen.runtime.module_file.stage_texts import unpacked
from meshgen.runtime.module_file.tensors import decode
from meshgen.runtime.native.export import FOLDER, with_members
from meshgen.runtime.native.table import native_members
from meshgen.runtime.validation.load_checks import checked_manifest, load_part

CODE = ("kernels/", "cubins/", "ptx/", FOLDER)  # folders of members with code, or with data that depends on the code
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Change:
    """The change of one kernel.

    Attributes:
        form: the new form, or None if the form does not change.
        provenance: the measurement, for the report of the module.
    """

    form: Form | None
    provenance: Mapping[str, Any]


# for each module (by the digest of its manifest) and each kernel name, the kernel's change
Changes = Mapping[str, Mapping[str, Change]]


def modules_of(members: Members) -> Iterator[LoadedModule]:
    """Yield the distinct single-mesh modules in a file. Raises the same errors as `load`."""
    seen: set[str] = set()
    for module in _modules(members):
        if (key := key_of(module.members)) not in seen:
            seen.add(key)
            yield module


def key_of(members: Members) -> str:
    """Return the digest of a module's manifest."""
    return bytes(members["manifest.sha256"]).decode()


def _modules(members: Members) -> Iterator[LoadedModule]:
    value = checked_manifest(members, members.path)
    inner = _inner(members, value)
    if not inner:
        yield load_part(members, members.path, value)
    for inner_members in inner.values():
        yield from _modules(inner_members)


def _inner(members: Members, value: Json) -> dict[Hashable, Members]:
    """Return the modules inside a module file by entry function, by sizes, or by the number of their mesh.

    Returns an empty dict for a single-mesh module.
    """
    if "parts" in value:
        return {number: Folder(members, f"parts/{number:02}") for number in range(len(value["parts"]))}
    if "entries" in value:
        held: Mapping[Any, Mapping[str, str]] = decode_entries(value).held
    elif "specialisations" in value:
        held = decode_open(value).held
    else:
        return {}
    member_of_digest = {digest: name for name, digest in value["files"].items()}
    return {
        key: Held(members.path, {file: members[member_of_digest[digest]] for file, digest in files.items()})
        for key, files in held.items()
    }


def with_forms(members: Members, changes: Changes) -> dict[str, bytes]:
    """Return the members of the file with the changes applied, without the signature, which no longer matches.

    Raises the same errors as `load`.
    """
    value = checked_manifest(members, members.path)
    inner: dict[Any, dict[str, bytes]] = {
        key: with_forms(inner_members, changes) for key, inner_members in _inner(members, value).items()
    }
    if "parts" in value:
        return _with_parts(members, value, inner)
    if "entries" in value:
        return entries_members(value["name"], inner)
    if "specialisations" in value:
        program = decode_open(value)
        weights = decode(members[WEIGHTS]) if WEIGHTS in members else {}
        return open_members(program, unpacked(members, program.text_member), inner, weights)
    kernel_changes = changes.get(key_of(members), {})
    return _changed(load_part(members, members.path, value), kernel_changes)


def _with_parts(members: Members, value: Json, parts: Mapping[int, Mapping[str, bytes]]) -> dict[str, bytes]:
    kept = {name: bytes(members[name]) for name in value["files"] if not name.startswith("parts/")}
    kept |= {f"parts/{number:02}/{name}": content for number, part in parts.items() for name, content in part.items()}
    return kept | sealed(value | {"files": {name: digest(kept[name]) for name in sorted(kept)}})


def _changed(module: LoadedModule, changes: Mapping[str, Change]) -> dict[str, bytes]:
    """Return the members of a single-mesh module with the changes applied."""
    manifest, old_members = module.manifest, module.members
    if not changes:
        return {name: bytes(old_members[name]) for name in old_members if name != SIGNATURE}
    special = ("manifest.json", "manifest.sha256", SIGNATURE)
    members = {
        name: bytes(old_members[name]) for name in old_members if name not in special and not name.startswith(CODE)
    }
    files = {
        name: {file: bytes(old_members[file]) for file in kernel.files} for name, kernel in manifest.kernels.items()
    }
    kernels = dict(manifest.kernels)
    for name, change in changes.items():
        if change.form:
            kernels[name], files[name] = change.form.kernel, dict(change.form.files)
    member_of_binary: dict[bytes, str] = {}
    kernels = {name: _placed(name, kernel, files[name], members, member_of_binary) for name, kernel in kernels.items()}
    measured = dict(manifest.report.get("tuning", {})) | {name: dict(each.provenance) for name, each in changes.items()}
    manifest = replace(manifest, kernels=kernels, report=dict(manifest.report) | {"tuning": measured})
    digests = {name: hashlib.sha256(members[name]).hexdigest() for name in sorted(members)}
    members |= sealed(manifest_to_json(manifest, digests))
    if any(name.startswith(FOLDER) for name in old_members):
        held = Held(old_members.path, members)
        loaded = load_part(held, old_members.path, checked_manifest(held, old_members.path))
        return with_members(held, native_members(loaded))
    return members


def _placed(name: str, kernel: Kernel, files: Mapping[str, bytes], members: dict[str, bytes],
            member_of_binary: dict[bytes, str]) -> Kernel:  # fmt: skip
    """Add the files of a kernel to `members`, and return the kernel with their new names.

    Equal binaries are stored once, under the name of the first kernel that has them.
    """
    if not kernel.source:
        return kernel
    members[f"kernels/{name}.py"] = files[kernel.source]
    binaries = dict(kernel.binaries)
    for arch, binary in binaries.items():
        cubin = member_of_binary.setdefault(files[binary.file], f"cubins/{arch}/{name}.cubin")
        members[cubin] = files[binary.file]
        ptx = member_of_binary.setdefault(files[binary.ptx], f"ptx/{arch}/{name}.ptx") if binary.ptx else ""
        if ptx:
            members[ptx] = files[binary.ptx]
        binaries[arch] = replace(binary, file=cubin, ptx=ptx)
    forms = dict(kernel.forms)
    for arch, form in forms.items():
        members[form_member(name, arch)] = files[form.source]
        forms[arch] = replace(form, source=form_member(name, arch))
    return replace(kernel, source=f"kernels/{name}.py", binaries=binaries, forms=forms)
