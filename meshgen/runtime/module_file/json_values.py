"""Checked values of untrusted JSON documents; ValueError names the malformed one."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from meshgen.budget import memory_fault
from meshgen.printable import is_plain

T = TypeVar("T")
MAX_NAME = 4096  # characters
MAX_DEPTH = 64  # of values that are passed through
MAX_AMOUNT = 1e30  # of FLOP, bytes or seconds (chosen: far more than any step has, and its square is a finite double)
_EXPANDS = 25  # bytes of memory that a byte of a document takes at most: `{},` is an object of 64 bytes and its place in a list


def shown(value: Any) -> str:
    """A value in a message, shortened."""
    return reprlib.repr(value)


def get(table: Any, name: str, read: Callable[[Any], T]) -> T:
    """A required entry, converted by `read`."""
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
    """A name: short, and without control characters."""
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
    """Parse a document.

    Raises ValueError for NaN and infinities, numbers beyond a float, a key that an object has twice, and a document that may not fit into memory.
    """
    if fault := memory_fault(_EXPANDS * len(text), f"a document of {len(text):,} bytes"):
        raise ValueError(fault)
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_distinct)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its entries: of two with one key, readers take the first or the last."""
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
    """Any value, which is displayed and never computed with. Integers must fit 64 bits, for other readers."""
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            read_plain(each, depth + 1)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{shown(value)} is too large")
    return value


def table_of(value: Any, read: Callable[[Any], T]) -> dict[str, T]:
    """An object whose values are all of one kind."""
    return {read_name(name): get(value, name, read) for name in read_table(value)}


def read_amount(value: Any) -> float:
    """A finite non-negative number, such as seconds."""
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
    """Counts whose product is in range too, so that byte sizes cannot overflow."""
    found = each_of(values, read_count)
    if math.prod(n for n in found if n) >= 1 << 58:
        raise ValueError(f"{shown(list(found))} is too large")
    return found


def each_of(values: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    """The entries of a list, each converted by `read`."""
    if not isinstance(values, list):
        raise ValueError(f"expected a list, got {shown(values)}")
    found: list[T] = []
    try:
        for value in values:
            found.append(read(value))
    except ValueError as error:
        raise ValueError(f"[{len(found)}]: {error}") from error
    return tuple(found)


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """The value converted by `read`, or None for null."""
    return lambda value: None if value is None else read(value)
