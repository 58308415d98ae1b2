"""Several programs as the entry functions of one module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError


def programs_of(graph: Any, entry: Any) -> dict[str, tuple[Any, str]] | None:
    """Per entry function its program, and the name of the function in it; None where one program is given.

    Raises UsageError MG0001 for malformed names.
    """
    if isinstance(graph, Mapping):
        programs = cast("Mapping[Any, Any]", graph)
        found = {name: (program, entry) for name, program in programs.items()}
    elif isinstance(entry, list | tuple):
        found = {name: (graph, name) for name in cast("list[Any]", entry)}
    else:
        return None
    if not found or not all(isinstance(name, str) and name for name in found):
        hint = 'write for example {"prefill": f, "decode": g}, or entry=["prefill", "decode"]'
        raise UsageError(
            Diagnostic("MG0001", f"names of entry functions must be identifiers, got {[*found]!r:.60}", hint=hint)
        )
    return found
