"""Values of JSON documents that are not to be trusted: each is what it must be, or ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def one_of(value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{value!r} is none of {', '.join(choices)}")
    return value


def read_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ValueError(f"{value!r} is not a count")
    return value


def read_counts(values: Any) -> tuple[int, ...]:
    """Counts whose product is one too, so that byte sizes cannot overflow."""
    found = each_of(values, read_count)
    if math.prod(n for n in found if n) >= 1 << 58:
        raise ValueError(f"{found} is too big")
    return found


def each_of(values: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{values!r} is not a list")
    return tuple(read(value) for value in values)
