"""Checks of names and numbers that users write. Valid names can be printed in the program text of every stage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from meshgen.errors import Diagnostic

PART_OF_AXIS = re.compile(r"(.+):\(([0-9]{1,18})\)([0-9]{1,18})")


def axis_name_fault(name: Any) -> Diagnostic | None:
    """Return the diagnostic for an invalid name of a mesh axis, or None."""
    if isinstance(name, str) and name and name.isascii() and _is_writable(name) and not PART_OF_AXIS.fullmatch(name):
        return None
    text = f"mesh axis {name!r:.80}: a name must be printable ASCII characters, without quotes and backslashes"
    return Diagnostic("MG0201", text, hint='write for example {"dp": 2, "tp": 4}; x:(1)2 is a sub-axis')


def mesh_name_faults(name: str) -> list[Diagnostic]:
    """Return the diagnostic for an invalid name of a mesh, or an empty list."""
    text = f"mesh name {name!r:.80} has quotes, backslashes or control characters"
    return [] if _is_writable(name) else [Diagnostic("MG0201", text)]


def _is_writable(name: str) -> bool:
    return name.isprintable() and not set(name) & set('"\\')


def whole_number(text: str) -> int | None:
    """Parse a text of decimal digits. Returns None for any other text, and for more digits than the size of a tensor
    can have.
    """
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def nearest_names(name: str, names: Iterable[str], most: int = 3, alike: float = 0.6) -> list[str]:
    """Return at most `most` known names that are similar to `name`, the most similar first.

    Args:
        alike: smallest similarity to `name`, as a ratio of `difflib`.
    """
    from difflib import get_close_matches  # imported late: slow, and only needed for a wrong name

    return get_close_matches(name, list(names), most, alike)


_BYTES = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*(?:([kmgt])(i?b)?|b)?", re.IGNORECASE)


def byte_count(text: str) -> int | None:
    """Parse a size in bytes: `64`, `64kB` and `64KB` (of 1,000), `64KiB` and `64K` (of 1,024).

    Returns None for another text.
    """
    size = _BYTES.fullmatch(text.strip())
    if not size:
        return None
    base = 1000 if (size[3] or "").lower() == "b" else 1024
    return int(float(size[1]) * base ** (" kmgt".index((size[2] or " ").lower())))
