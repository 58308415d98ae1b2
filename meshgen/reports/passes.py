"""What each pass did to a program: how often it changed something, whether that was taken, costs before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from meshgen.compilation import PassRecord
from meshgen.reports.tables import Table, bytes_text, seconds_text, table_of

COLUMNS = ("pass", "fired", "kept", "rejected", "before", "after")


def pass_rows(passes: Mapping[str, PassRecord]) -> list[tuple[str, ...]]:
    """A row for each pass that changed something, in the order in which they first ran."""
    return [
        (
            each.name,
            str(each.fired),
            str(each.kept),
            str(each.rejected),
            *(_cost_text(cost, each.unit) for cost in (each.before, each.after)),
        )
        for each in passes.values()
        if each.fired
    ]


def pass_table(passes: Mapping[str, PassRecord]) -> Table:
    """The rows as a table; costs are those that decided: bytes that a device sends, or predicted seconds."""
    idle = [each for each in passes.values() if not each.fired]
    title = (
        f"Passes that changed something; {len(idle)} others had nothing to do in {sum(e.seconds for e in idle):.2f} s"
    )
    took = [f"{each.seconds:.3f}" for each in passes.values() if each.fired]
    rows = [(*row, seconds) for row, seconds in zip(pass_rows(passes), took, strict=True)]
    return table_of(title, (*COLUMNS, "seconds"), rows)


def pass_records(passes: Mapping[str, PassRecord]) -> list[dict[str, Any]]:
    """The same for `--json`, with those that had nothing to do."""
    return [asdict(each) | {"rejected": each.rejected} for each in passes.values()]


def _cost_text(cost: float, unit: str) -> str:
    if not unit:
        return ""
    return bytes_text(cost) if unit == "B" else seconds_text(cost)
