"""Compilation of several programs into one module, with an entry function for each program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError


def entry_programs(graph: Any, entry: Any) -> dict[str, tuple[Any, str]] | None:
    """Map the name of each entry function to (program, name of the function in that program).

    `graph` is a dict of programs by entry name, or `entry` lists functions of one program.

    Returns:
        The mapping, or None if `graph` and `entry` describe a single program.

    Raises:
        UsageError: MG0001, a name is not a nonempty string.
    """
    if isinstance(graph, Mapping):
        programs = cast("Mapping[Any, Any]", graph)
        entries = {name: (program, entry) for name, program in programs.items()}
    elif isinstance(entry, list | tuple):
        entries = {name: (graph, name) for name in cast("list[Any]", entry)}
    else:
        return None
    if not entries or not all(isinstance(name, str) and name for name in entries):
        hint = 'write for example {"prefill": f, "decode": g}, or entry=["prefill", "decode"]'
        raise UsageError(
            Diagnostic("MG0001", f"names of entry functions must be identifiers, got {[*entries]!r:.60}", hint=hint)
        )
    return entries
