"""Validating readers for values of untrusted JSON. Each raises ValueError with the path to a malformed value."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from meshgen.budget import memory_fault
from meshgen.printable import is_plain

T = TypeVar("T")
MAX_NAME = 4096  # characters of a name (chosen: far longer than names of real programs)
MAX_DEPTH = 64  # nesting levels of a value that `read_plain` accepts (chosen: far deeper than any report)
# upper bound on a cost in FLOP, bytes or seconds (chosen: above the cost of any step, and its square is a finite
# double)
MAX_AMOUNT = 1e30
# largest number of bytes of memory per byte of JSON text: `{},` becomes a dict of 64 bytes and its list entry
_EXPANDS = 25


def shown(value: Any) -> str:
    """Format a value for an error message, shortened."""
    return reprlib.repr(value)


def get(table: Any, name: str, read: Callable[[Any], T]) -> T:
    """Return the required entry `name` of a JSON object, converted by `read`."""
    entries = read_table(table)
    if name not in entries:
        raise ValueError(f"'{name}' is missing")
    try:
        return read(entries[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {shown(value)}")
    return value


def read_name(value: Any) -> str:
    """Return a valid name: short and without control characters."""
    name = read_text(value)
    if len(name) > MAX_NAME or not is_plain(name):
        raise ValueError(
            f"{shown(name)} is not a valid name: it has control characters, or more than {MAX_NAME} characters"
        )
    return name


def one_of(value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"expected one of {', '.join(choices)}, got {shown(value)}")
    return value


def read_json(text: bytes) -> Any:
    """Parse a JSON document.

    Raises:
        ValueError: the document has a NaN, an infinity, a number beyond the range of a float or a repeated key, or may
            not fit into memory.
    """
    if fault := memory_fault(_EXPANDS * len(text), f"a document of {len(text):,} bytes"):
        raise ValueError(fault)
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_distinct)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a dict. Reject repeated keys, because another JSON reader may use the first value, or the last one."""
    table = dict(pairs)
    if len(table) != len(pairs):
        keys: set[str] = set()
        raise ValueError(f"the key {shown(next(key for key, _ in pairs if key in keys or keys.add(key)))} stands twice")
    return table


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a number")
    return number


def read_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {shown(value)}")
    return value


def read_plain(value: Any, depth: int = 0) -> Any:
    """Return any JSON value that is only displayed, never computed with.

    Integers must fit into 64 bits, because other readers of the file may have no larger ones.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, (dict, list)):
        for child in value.values() if isinstance(value, dict) else value:
            read_plain(child, depth + 1)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{shown(value)} is too large")
    return value


def table_of(value: Any, read: Callable[[Any], T]) -> dict[str, T]:
    """Return a JSON object with `read` applied to each value."""
    return {read_name(name): get(value, name, read) for name in read_table(value)}


def read_amount(value: Any) -> float:
    """Return a non-negative finite number, such as a time in seconds."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= MAX_AMOUNT:
        raise ValueError(f"expected a non-negative number, got {shown(value)}")
    return float(value)


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {shown(value)}")
    return value


def read_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ValueError(f"expected a non-negative integer, got {shown(value)}")
    return value


def read_counts(values: Any) -> tuple[int, ...]:
    """Return a list of counts whose product is below 2^58, so that sizes in bytes cannot overflow."""
    counts = read_list(values, read_count)
    if math.prod(count for count in counts if count) >= 1 << 58:
        raise ValueError(f"{shown(list(counts))} is too large")
    return counts


def read_list(values: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    """Return the entries of a JSON list, each converted by `read`."""
    if not isinstance(values, list):
        raise ValueError(f"expected a list, got {shown(values)}")
    converted: list[T] = []
    try:
        for value in values:
            converted.append(read(value))
    except ValueError as error:
        raise ValueError(f"[{len(converted)}]: {error}") from error
    return tuple(converted)


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a reader that maps null to None and converts any other value by `read`."""
    return lambda value: None if value is None else read(value)
