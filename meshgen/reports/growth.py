"""How much figures may grow between two programs: `bytes:+5%`, `memory:+1GB`, `collectives:+0`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from meshgen.errors import Diagnostic, UsageError
from meshgen.reports.tables import figure_text

# What may be limited, and how figures of `diff` of that kind end; `collectives` is all kinds together.
FIGURES = {
    "bytes": "ring bytes",
    "memory": "peak memory bytes",
    "step": "step seconds",
    "exposed": "exposed seconds",
    "traffic": "device bytes",
    "kernels": "kernels",
    "collectives": "collectives",
}
_UNITS = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_LIMIT = re.compile(r"(?P<name>[a-z]+):\+(?P<number>\d+(?:\.\d+)?)(?P<unit>%|[kMG]?B|us|ms|s)?")


@dataclass(frozen=True)
class Limit:
    """A figure may grow by a share of what it was, or by an amount (bytes, seconds, a count)."""

    name: str
    share: float
    amount: float

    def most(self, before: float) -> float:
        """The largest value that it allows for a figure that was `before`."""
        return before * (1 + self.share) + self.amount

    def exceeded(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
        """A line for each figure of this name that grew more; those of several meshes and sizes are compared each for itself."""
        old, new = figures_named(before, self.name), figures_named(after, self.name)
        for figure in old.keys() & new.keys():
            most = self.most(old[figure])
            if new[figure] > most * (1 + 1e-12):
                shown = [figure_text(FIGURES[self.name], value) for value in (old[figure], new[figure], most)]
                yield f"{figure}: {shown[0]} -> {shown[1]}, at most {shown[2]} is allowed"


def limit_of(text: str) -> Limit:
    """A limit as written. Raises UsageError MG0001."""
    match = _LIMIT.fullmatch(text)
    if match is None or match["name"] not in FIGURES:
        hint = f"write FIGURE:+NUMBER and % or a unit, such as bytes:+5%; figures are {', '.join(FIGURES)}"
        raise UsageError(Diagnostic("MG0001", f"'{text:.40}' does not limit a figure", hint=hint))
    number, unit = float(match["number"]), match["unit"] or ""
    return Limit(match["name"], number / 100, 0.0) if unit == "%" else Limit(match["name"], 0.0, number * _UNITS[unit])


def figures_named(figures: Mapping[str, Any], name: str) -> dict[str, float]:
    """The figures of `diff` that a name is about, with what stands before it (`@mesh `, sizes)."""
    found: dict[str, float] = {}
    for figure, value in figures.items():
        head, _, kind = figure.rpartition("collectives: ")
        is_kind = bool(kind) and figure == f"{head}collectives: {kind}"
        if name == "collectives" and is_kind:
            found[f"{head}collectives"] = found.get(f"{head}collectives", 0) + value
        elif name != "collectives" and re.fullmatch(rf"(?:.*[: ])?{FIGURES[name]}", figure) and not figure.endswith("distinct kernels"):  # fmt: skip
            found[figure] = value
    return found
