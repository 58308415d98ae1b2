"""Declarations of cost model fields. Each field is a value with a unit, a meaning and a source, and all fields can be
listed.

A source is a public document, a derivation, or a command of this repository. A value without such a source is `chosen`
and states the result of `python -m bench.sensitivity`: whether half or twice the value changes a plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
STEADY = "chosen; half or twice the value does not change any plan of `python -m bench.sensitivity`"
MATTERS = "chosen; half or twice the value changes some plans of `python -m bench.sensitivity`"


class Entry(NamedTuple):
    """A field of the cost model. `name` includes its group, as in `links.peer_seconds`."""

    name: str
    value: Any
    unit: str
    meaning: str
    source: str


def known(value: T, unit: str, meaning: str, source: str) -> T:
    """Declare a dataclass field whose value has a source: a document, a derivation or a measurement."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "source": source})


def chosen(value: T, unit: str, meaning: str, *, matters: bool) -> T:
    """Declare a dataclass field whose value was chosen.

    Args:
        matters: whether half or twice the value changes a plan.
    """
    return known(value, unit, meaning, MATTERS if matters else STEADY)


def required(unit: str, meaning: str, source: str = "") -> Any:
    """Declare a field without default, for a dataclass with several instances."""
    return field(metadata={"unit": unit, "meaning": meaning, "source": source})


def entries(model: object, prefix: str = "") -> Iterator[Entry]:
    """Yield the fields of a cost model, or of a part of it, in order.

    The fields of a tuple of dataclasses are listed per element, by the name of the element.
    """
    for declared in fields(model):  # pyright: ignore[reportArgumentType]
        value, name = getattr(model, declared.name), f"{prefix}{declared.name}"
        if is_dataclass(value):
            yield from entries(value, f"{name}.")
        elif isinstance(value, tuple) and value and all(map(is_dataclass, value)):
            for element in value:
                yield from entries(element, f"{name}.{element.name}.")
        elif declared.metadata:
            yield _entry(name, value, declared)


def _entry(name: str, value: Any, field: Field[Any]) -> Entry:
    return Entry(name, value, *(field.metadata[key] for key in ("unit", "meaning", "source")))
