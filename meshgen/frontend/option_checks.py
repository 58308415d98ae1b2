"""Validation and normal forms of option values in the Python interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError


def strict_option(option: bool | str | int | Sequence[str | int]) -> bool | tuple[str | int, ...]:
    """Return the normal form of `strict`: a bool, or a tuple of value names and line numbers.

    A single name or line needs no list.
    """
    if isinstance(option, bool):
        return option
    listed = (
        [option] if isinstance(option, (str, int)) else list(option) if isinstance(option, (list, tuple)) else [None]
    )
    if not all(isinstance(name_or_line, (str, int)) for name_or_line in listed):
        hint = "give True, or names of values and numbers of lines"
        raise UsageError(
            Diagnostic("MG0001", f"strict must be a bool or a list of values and lines, got {option!r:.60}", hint=hint)
        )
    return tuple(cast("list[str | int]", listed))


def text_option(value: Any, option: str) -> str:
    """Return `value`, the value of the option named `option`. Raises UsageError unless it is a string."""
    if not isinstance(value, str):
        raise UsageError(Diagnostic("MG0001", f"{option} must be a string, got {value!r:.60}"))
    return value


def names_option(value: Any, option: str) -> tuple[str, ...]:
    """Return `value`, the value of the option named `option`, as a tuple.

    Raises UsageError unless it is a list of strings.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UsageError(Diagnostic("MG0001", f"{option} must be a list of names, got {value!r:.60}"))
    return tuple(text_option(name, option) for name in cast("Sequence[Any]", value))
