"""Limits for `diff --fail-on` on the growth of a figure, written as `bytes:+5%`, `memory:+1GB` or `collectives:+0`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from meshgen.errors import Diagnostic, UsageError
from meshgen.reports.tables import figure_text

# Maps the name of a limit to the suffix of the figures that it limits. `collectives` adds up all kinds.
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
    """The permitted growth of a figure, as a share of its old value or as an amount (bytes, seconds, a count)."""

    name: str
    share: float
    amount: float

    def most(self, before: float) -> float:
        """Return the largest value that a figure may have now if it was `before`."""
        return before * (1 + self.share) + self.amount

    def exceeded(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
        """Yield a line for each figure with the limit's name that grew beyond the limit.

        Figures of several meshes and sizes are compared separately.
        """
        old, new = figures_named(before, self.name), figures_named(after, self.name)
        for figure in old.keys() & new.keys():
            largest_allowed = self.most(old[figure])
            if new[figure] > largest_allowed * (1 + 1e-12):
                texts = [
                    figure_text(FIGURES[self.name], value) for value in (old[figure], new[figure], largest_allowed)
                ]
                yield f"{figure}: {texts[0]} -> {texts[1]}, at most {texts[2]} is allowed"


def limit_of(text: str) -> Limit:
    """Parse a limit such as `bytes:+5%`.

    Raises:
        UsageError: MG0001 for a malformed limit or an unknown figure.
    """
    match = _LIMIT.fullmatch(text)
    if match is None or match["name"] not in FIGURES:
        hint = f"write FIGURE:+NUMBER and % or a unit, such as bytes:+5%; figures are {', '.join(FIGURES)}"
        raise UsageError(Diagnostic("MG0001", f"'{text:.40}' does not limit a figure", hint=hint))
    value, unit = float(match["number"]), match["unit"] or ""
    return Limit(match["name"], value / 100, 0.0) if unit == "%" else Limit(match["name"], 0.0, value * _UNITS[unit])


def figures_named(figures: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return the figures of `diff` to which the limit `name` applies. Keys keep their prefix for the mesh or the
    sizes.
    """
    selected: dict[str, float] = {}
    for figure, value in figures.items():
        head, _, kind = figure.rpartition("collectives: ")
        is_kind = bool(kind) and figure == f"{head}collectives: {kind}"
        if name == "collectives" and is_kind:
            selected[f"{head}collectives"] = selected.get(f"{head}collectives", 0) + value
        elif name != "collectives" and re.fullmatch(rf"(?:.*[: ])?{FIGURES[name]}", figure) and not figure.endswith("distinct kernels"):  # fmt: skip
            selected[figure] = value
    return selected
