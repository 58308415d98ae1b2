"""A module with several entry functions (prefill and decode, say): a module each, in one file; equal members are in it once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file import limits
from meshgen.runtime.module_file.json_values import each_of, get, read_name, read_text, shown, table_of
from meshgen.runtime.module_file.manifest import ENTRIES_FORMAT, Json
from meshgen.runtime.module_file.members import Held, Members
from meshgen.runtime.validation.checked import reading

Digests = Mapping[str, str]  # SHA-256 by name of member


@dataclass(frozen=True)
class Entries:
    """The manifest's content: per entry function the members of its module, by digest."""

    name: str
    held: Mapping[str, Digests]


def encode_entries(entries: Entries, files: Digests) -> Json:
    """The manifest as JSON values; `files` are the SHA-256 of the members of the file."""
    rows = [{"name": name, "members": dict(members)} for name, members in entries.held.items()]
    return {"format": ENTRIES_FORMAT, "name": entries.name, "entries": rows, "files": dict(files)}


def decode_entries(value: Json) -> Entries:
    """The inverse of `encode_entries`. Raises ValueError for malformed values."""
    rows = get(value, "entries", lambda each: each_of(each, _read_entry_members))
    files = get(value, "files", lambda table: table_of(table, read_text))
    found = Entries(get(value, "name", read_name), dict(rows))
    if len(found.held) != len(rows) or not rows:
        raise ValueError("entry functions must have distinct names, and there must be at least one")
    digests = {*files.values()}
    used = {digest for members in found.held.values() for digest in members.values()}
    for name, members in found.held.items():
        if not digests.issuperset(members.values()):
            raise ValueError(f"a member of entry {shown(name)} is not in the file")
    if used != digests or len(digests) != len(files):
        raise ValueError("its members do not match its entries")
    return found


def _read_entry_members(value: Any) -> tuple[str, Digests]:
    return get(value, "name", read_name), get(value, "members", lambda table: table_of(table, read_text))


def load_entries(container: Members, value: Json, load: Callable[[Members], LoadedModule]) -> dict[str, LoadedModule]:
    """The module of each entry function of a file's checked manifest; `load` makes one of its members. Raises as `load`."""
    with reading(container.path):
        entries = decode_entries(value)
    for fault in limits.over("entries", len(entries.held)):
        raise limits.beyond(container.path, fault)
    place = {digest: name for name, digest in value["files"].items()}
    return {
        name: load(Held(container.path, {file: container[place[digest]] for file, digest in members.items()}))
        for name, members in entries.held.items()
    }
