"""Values of JSON documents that are not to be trusted: each is what it must be, or ValueError says which is not."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from meshgen.printable import is_plain
from meshgen.runtime.host_memory import free_bytes

T = TypeVar("T")
MAX_NAME = 4096  # characters
MAX_DEPTH = 64  # of values that are passed on as they are
MAX_AMOUNT = 1e30
_EXPANDS = 25  # bytes of memory that a byte of a document takes at most: `{},` is an object of 64 bytes and its place in a list


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    return reprlib.repr(value)


def get(table: Any, name: str, read: Callable[[Any], T]) -> T:
    """An entry that must be there, as `read` has it."""
    entries = read_table(table)
    if name not in entries:
        raise ValueError(f"there is no '{name}'")
    try:
        return read(entries[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not a text")
    return value


def read_name(value: Any) -> str:
    """What people and messages call something: short, and without characters that a terminal obeys."""
    name = read_text(value)
    if len(name) > MAX_NAME or not is_plain(name):
        raise ValueError(f"{shown(name)} is no name: it has control characters, or more than {MAX_NAME} characters")
    return name


def one_of(value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{shown(value)} is none of {', '.join(choices)}")
    return value


def read_json(text: bytes) -> Any:
    """A document; what JSON has no number for is refused, as are numbers that a float does not hold, and what may not fit into memory."""
    free = free_bytes()
    if free is not None and _EXPANDS * len(text) > free:
        raise ValueError(f"{len(text):,} bytes of JSON may take more memory than the {free:,} bytes that are free")
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a number")
    return number


def read_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is not a table")
    return value


def read_plain(value: Any, depth: int = 0) -> Any:
    """Any value, as it is: it is passed on to people and never computed with. Integers are those that others read too."""
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            read_plain(each, depth + 1)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{shown(value)} is too big")
    return value


def table_of(value: Any, read: Callable[[Any], T]) -> dict[str, T]:
    """A table whose entries are all of one kind, under names."""
    return {read_name(name): get(value, name, read) for name in read_table(value)}


def read_amount(value: Any) -> float:
    """Seconds and the like: a finite number from 0 on."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= MAX_AMOUNT:
        raise ValueError(f"{shown(value)} is not an amount")
    return float(value)


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false")
    return value


def read_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ValueError(f"{shown(value)} is not a count")
    return value


def read_counts(values: Any) -> tuple[int, ...]:
    """Counts whose product is one too, so that byte sizes cannot overflow."""
    found = each_of(values, read_count)
    if math.prod(n for n in found if n) >= 1 << 58:
        raise ValueError(f"{shown(list(found))} is too big")
    return found


def each_of(values: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    """The entries of a list, each as `read` has it."""
    if not isinstance(values, list):
        raise ValueError(f"{shown(values)} is not a list")
    return tuple(_entry(number, value, read) for number, value in enumerate(values))


def _entry(number: int, value: Any, read: Callable[[Any], T]) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"[{number}]: {error}") from error


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """What `read` has, or None for null."""
    return lambda value: None if value is None else read(value)
