"""Writes a module with several entry functions: the members of each one's module, equal ones once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from meshgen.codegen.packaging.package import sealed
from meshgen.runtime.entries import Entries, decode_entries, encode_entries
from meshgen.runtime.module_file.limits import beyond, name_faults, over, refuse_unreadable


def entries_members(name: str, held: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """The members of the file; `held` are those of each entry function. Raises ModuleError MG0504."""
    for fault in [*over("entries", len(held)), *name_faults([name, *held])]:
        raise beyond(name, fault)
    members, digests = distinct_members("entries", list(held.values()))
    files = {member: digest(members[member]) for member in sorted(members)}
    manifest = sealed(encode_entries(Entries(name, dict(zip(held, digests, strict=True))), files))
    refuse_unreadable(name, manifest["manifest.json"], decode_entries)
    return members | manifest


def distinct_members(folder: str, held: list[Mapping[str, bytes]], taken: frozenset[str] = frozenset()) -> tuple[dict[str, bytes], list[dict[str, str]]]:  # fmt: skip
    """Each distinct content of several modules once, as `folder/NN/member` of the first that has it; and per module its digests.

    `taken`: digests of what is in the file anyway.
    """
    seen, found = set(taken), dict[str, bytes]()
    digests: list[dict[str, str]] = []
    for number, own in enumerate(held):
        digests.append({name: digest(content) for name, content in sorted(own.items())})
        for name, each in digests[-1].items():
            if each not in seen:
                seen.add(each)
                found[f"{folder}/{number:02}/{name}"] = own[name]
    return found, digests


def digest(content: bytes) -> str:
    """SHA-256, as manifests have it."""
    return hashlib.sha256(content).hexdigest()
