"""Values of JSON documents that are not to be trusted: each is what it must be, or ValueError."""

from __future__ import annotations

import json
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


def read_json(text: bytes) -> Any:
    """A document; what JSON has no number for is refused, as are numbers that a float does not hold."""
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number")
    return number


def read_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table")
    return value


def read_amount(value: Any) -> float:
    """Seconds and the like: a finite number from 0 on."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no amount")
    return float(value)


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
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
