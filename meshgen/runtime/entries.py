"""Modules with several entry functions, for example prefill and decode: one file with a module for each of them.

Members that are equal in several modules are stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file import limits
from meshgen.runtime.module_file.json_values import get, read_list, read_name, read_text, shown, table_of
from meshgen.runtime.module_file.manifest import ENTRIES_FORMAT, Json
from meshgen.runtime.module_file.members import Held, Members
from meshgen.runtime.validation.load_checks import reading

Digests = Mapping[str, str]  # member name -> SHA-256


@dataclass(frozen=True)
class Entries:
    """The contents of the manifest of a file with several entry functions: the members of each function's module.

    Attributes:
        held: entry function -> member name -> digest.
    """

    name: str
    held: Mapping[str, Digests]


def encode_entries(entries: Entries, files: Digests) -> Json:
    """Return the manifest as JSON values.

    Args:
        files: member of the file -> digest.
    """
    rows = [{"name": name, "members": dict(members)} for name, members in entries.held.items()]
    return {"format": ENTRIES_FORMAT, "name": entries.name, "entries": rows, "files": dict(files)}


def decode_entries(value: Json) -> Entries:
    """Return the entries of a manifest. Raises ValueError for malformed values."""
    rows = get(value, "entries", lambda row_values: read_list(row_values, _read_entry_members))
    files = get(value, "files", lambda table: table_of(table, read_text))
    entries = Entries(get(value, "name", read_name), dict(rows))
    if len(entries.held) != len(rows) or not rows:
        raise ValueError("entry functions must have distinct names, and there must be at least one")
    stored_digests = {*files.values()}
    used_digests = {digest for members in entries.held.values() for digest in members.values()}
    for name, members in entries.held.items():
        if not stored_digests.issuperset(members.values()):
            raise ValueError(f"a member of entry {shown(name)} is not in the file")
    if used_digests != stored_digests or len(stored_digests) != len(files):
        raise ValueError("its members do not match its entries")
    return entries


def _read_entry_members(value: Any) -> tuple[str, Digests]:
    return get(value, "name", read_name), get(value, "members", lambda table: table_of(table, read_text))


def load_entries(container: Members, value: Json, load: Callable[[Members], LoadedModule]) -> dict[str, LoadedModule]:
    """Return the module of each entry function.

    Args:
        value: the checked manifest of the file.
        load: makes a module from its members.
    Raises:
        ModuleError: the same errors as `load`.
    """
    with reading(container.path):
        entries = decode_entries(value)
    for fault in limits.over("entries", len(entries.held)):
        raise limits.beyond(container.path, fault)
    file_of_digest = {digest: name for name, digest in value["files"].items()}
    return {
        name: load(Held(container.path, {file: container[file_of_digest[digest]] for file, digest in members.items()}))
        for name, members in entries.held.items()
    }
