"""Fields of the cost model: a value with a unit, a meaning and a source, which can be printed.

A source is a public document, a derivation, or a command of this repository. A value that rests on none of them is `chosen`, and
says what `python -m bench.sensitivity` found: whether half and twice of it give the same plans for all its programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
STEADY = "chosen; half and twice of it plan all programs of `python -m bench.sensitivity` alike"
MATTERS = "chosen; half or twice of it plans some programs of `python -m bench.sensitivity` differently"


class Entry(NamedTuple):
    """A field of the cost model: `name` has its group, as in `links.peer_seconds`."""

    name: str
    value: Any
    unit: str
    meaning: str
    source: str


def known(value: T, unit: str, meaning: str, source: str) -> T:
    """A field of a frozen dataclass whose value has a source: a document, a derivation or a measurement."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "source": source})


def chosen(value: T, unit: str, meaning: str, *, matters: bool) -> T:
    """A field whose value was chosen; `matters` says whether half or twice of it changes a plan."""
    return known(value, unit, meaning, MATTERS if matters else STEADY)


def required(unit: str, meaning: str, source: str = "") -> Any:
    """A field of a dataclass that has several instances, whose value each of them says."""
    return field(metadata={"unit": unit, "meaning": meaning, "source": source})


def entries(model: object, prefix: str = "") -> Iterator[Entry]:
    """The fields of a cost model, or of a part of it, in order; of a tuple of dataclasses those of each, by its name."""
    for each in fields(model):  # pyright: ignore[reportArgumentType]
        value, name = getattr(model, each.name), f"{prefix}{each.name}"
        if is_dataclass(value):
            yield from entries(value, f"{name}.")
        elif isinstance(value, tuple) and value and all(map(is_dataclass, value)):
            for part in value:
                yield from entries(part, f"{name}.{part.name}.")
        elif each.metadata:
            yield _entry(name, value, each)


def _entry(name: str, value: Any, field: Field[Any]) -> Entry:
    return Entry(name, value, *(field.metadata[key] for key in ("unit", "meaning", "source")))
