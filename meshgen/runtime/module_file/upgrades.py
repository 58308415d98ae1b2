"""Upgrades of manifests from the previous module format to the current one.

Each of the four kinds of manifest has its own format number, and every change of the module format raises all four.
`UPGRADES` has one function per number of the previous format; a manifest of an older format is rejected. An upgraded
manifest is checked like any other. `docs/compatibility.md` states the compatibility promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from meshgen.runtime.module_file.json_values import get, read_list, read_name, read_table
from meshgen.runtime.module_file.manifest import ENTRIES_FORMAT, FORMAT, OPEN_FORMAT, PARTS_FORMAT, Json

_HINT = "compile the program again, or call the module as a function"


def newest_format(manifest: Mapping[str, Any]) -> int:
    """Return the current format number of the kind of manifest that `value` is."""
    if "entries" in manifest:
        return ENTRIES_FORMAT
    if "specialisations" in manifest:
        return OPEN_FORMAT
    return PARTS_FORMAT if "parts" in manifest else FORMAT


def upgraded(manifest: Json) -> Json | None:
    """Return the manifest converted to the current format, or None if it is older than the previous format.

    Raises ValueError for malformed values.
    """
    newest = newest_format(manifest)
    if manifest["format"] == newest:
        return manifest
    upgrade = UPGRADES.get((manifest["format"], newest))
    return upgrade(manifest) | {"format": newest} if upgrade else None


def _with_state_of_mesh(manifest: Json) -> Json:
    """Add the state to a manifest of format 10, which only names the result that reuses each donated argument's memory.

    That result is the argument's next value if its type is unique among the results and among the donated arguments.
    Other pairs are recorded as undecided.
    """
    inputs, outputs = (
        get(manifest, side, lambda rows: read_list(rows, _read_binding)) for side in ("inputs", "outputs")
    )
    donated = [binding for binding in inputs if binding.get("donated_to") is not None]
    if "state" in manifest or not donated:
        return manifest
    arguments, results = (Counter(map(_type_of, bindings)) for bindings in (donated, outputs))
    next_values: dict[str, Any] = {}
    undecided: dict[str, str] = {}
    for binding in donated:
        if arguments[_type_of(binding)] == results[_type_of(binding)] == 1:
            next_values[binding["name"]] = binding["donated_to"]
        else:
            undecided[f"a module of format 10 does not say which result is the next value of '{binding['name']}'"] = (
                _HINT
            )
    return manifest | {"state": {"next_values": next_values, "undecided": undecided}}


def _read_binding(value: Any) -> Json:
    get(value, "name", read_name)
    return read_table(value)


def _type_of(binding: Json) -> str:
    return repr((binding.get("dtype"), binding.get("shape")))


def _with_state_of_parts(manifest: Json) -> Json:
    """Add an undecided state to a manifest of format 11.

    That format does not say which results of a program on several meshes are the next values of arguments.
    """
    if "state" in manifest:
        return manifest
    message = "a module of format 11 does not say which results are the next values of donated arguments"
    return manifest | {"state": {"next_values": {}, "undecided": {message: _HINT}}}


def _unchanged(manifest: Json) -> Json:
    """Return a manifest that lists modules unchanged: the manifest of each listed module is upgraded separately."""
    return manifest


UPGRADES: Mapping[tuple[int, int], Callable[[Json], Json]] = {
    (10, FORMAT): _with_state_of_mesh,
    (11, PARTS_FORMAT): _with_state_of_parts,
    (12, OPEN_FORMAT): _unchanged,
    (13, ENTRIES_FORMAT): _unchanged,
}
