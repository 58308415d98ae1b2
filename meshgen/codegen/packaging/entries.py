"""Writer of a module file with several entry functions. Each function's module is included, and equal members are
stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from meshgen.codegen.packaging.package import sealed
from meshgen.runtime.entries import Entries, decode_entries, encode_entries
from meshgen.runtime.module_file.limits import beyond, name_faults, over, require_readable


def entries_members(name: str, held: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the members of the file. `held` maps each entry function to the members of its module.

    Raises ModuleError MG0504.
    """
    for fault in [*over("entries", len(held)), *name_faults([name, *held])]:
        raise beyond(name, fault)
    members, digests = distinct_members("entries", list(held.values()))
    files = {member: digest(members[member]) for member in sorted(members)}
    manifest = sealed(encode_entries(Entries(name, dict(zip(held, digests, strict=True))), files))
    require_readable(name, manifest["manifest.json"], decode_entries)
    return members | manifest


def distinct_members(folder: str, held: list[Mapping[str, bytes]], taken: frozenset[str] = frozenset()) -> tuple[dict[str, bytes], list[dict[str, str]]]:  # fmt: skip
    """Return the distinct members of several modules, as `folder/NN/member`, where NN is the first module with the
    member.

    Args:
        taken: digests of members that the file contains anyway.
    Returns:
        The distinct members, and for each module the digests of its members by name.
    """
    seen, distinct = set(taken), dict[str, bytes]()
    digests: list[dict[str, str]] = []
    for index, module_members in enumerate(held):
        digests.append({name: digest(content) for name, content in sorted(module_members.items())})
        for name, member_digest in digests[-1].items():
            if member_digest not in seen:
                seen.add(member_digest)
                distinct[f"{folder}/{index:02}/{name}"] = module_members[name]
    return distinct, digests


def digest(content: bytes) -> str:
    """Return the SHA-256 of `content` in hexadecimal, as used in manifests."""
    return hashlib.sha256(content).hexdigest()
