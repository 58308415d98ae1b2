"""The cost model as a table: what decided between plans, in numbers that can be looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from meshgen.cost_model.fields import entries
from meshgen.cost_model.model import DEFAULT

COLUMNS = ("field", "value", "unit", "of", "source")


def cost_model_rows() -> list[tuple[str, ...]]:
    """A row per field, as `COLUMNS` says."""
    return [(each.name, value_text(each.value), each.unit, each.meaning, each.source) for each in entries(DEFAULT)]


def value_text(value: Any) -> str:
    """A whole number in full, others in six digits; of several each, with its name where it has one."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each:g}" for name, each in cast("Mapping[str, float]", value).items())
    if isinstance(value, Sequence):
        return ", ".join(f"{each:g}" for each in cast("Sequence[float]", value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"1 + {value - 1:.0g}" if 0 < abs(value - 1) < 1e-6 else f"{value:g}"
