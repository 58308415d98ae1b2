"""The constants of the cost model as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from meshgen.cost_model.fields import entries
from meshgen.cost_model.model import DEFAULT

COLUMNS = ("field", "value", "unit", "meaning", "source")


def cost_model_rows() -> list[tuple[str, ...]]:
    """Return a table row per field of the cost model, with the columns of `COLUMNS`."""
    return [
        (entry.name, value_text(entry.value), entry.unit, entry.meaning, entry.source) for entry in entries(DEFAULT)
    ]


def value_text(value: Any) -> str:
    """Format a constant: an integer in full, another number in six digits. The elements of a sequence or mapping are
    joined by commas; a mapping has each key before its value.
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item:g}" for name, item in cast("Mapping[str, float]", value).items())
    if isinstance(value, Sequence):
        return ", ".join(f"{item:g}" for item in cast("Sequence[float]", value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"1 + {value - 1:.0g}" if 0 < abs(value - 1) < 1e-6 else f"{value:g}"
