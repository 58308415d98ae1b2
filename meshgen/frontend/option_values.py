"""Options of Python's functions: checked, and in one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError


def strict_option(asked: bool | str | int | Sequence[str | int]) -> bool | tuple[str | int, ...]:
    """The normal form of `strict`; one name or line may be given without a list."""
    if isinstance(asked, bool):
        return asked
    listed = [asked] if isinstance(asked, (str, int)) else list(asked) if isinstance(asked, (list, tuple)) else [None]
    if not all(isinstance(each, (str, int)) for each in listed):
        hint = "give True, or names of values and numbers of lines"
        raise UsageError(
            Diagnostic("MG0001", f"strict must be a bool or a list of values and lines, got {asked!r:.60}", hint=hint)
        )
    return tuple(cast("list[str | int]", listed))


def text_option(given: Any, option: str) -> str:
    """A string option. Raises UsageError for anything else."""
    if not isinstance(given, str):
        raise UsageError(Diagnostic("MG0001", f"{option} must be a string, got {given!r:.60}"))
    return given


def names_option(given: Any, option: str) -> tuple[str, ...]:
    """An option that is a list of strings. Raises UsageError for anything else."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageError(Diagnostic("MG0001", f"{option} must be a list of names, got {given!r:.60}"))
    return tuple(text_option(name, option) for name in cast("Sequence[Any]", given))
