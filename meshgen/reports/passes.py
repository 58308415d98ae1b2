"""Report what each pass did to a program: how often it changed the program, how often the change was kept, and the
costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from meshgen.compilation import PassRecord
from meshgen.reports.tables import Table, bytes_text, seconds_text, table_of

COLUMNS = ("pass", "fired", "kept", "rejected", "before", "after")


def pass_rows(passes: Mapping[str, PassRecord]) -> list[tuple[str, ...]]:
    """Return a table row for each pass that changed the program, in the order of the first runs."""
    return [
        (
            record.name,
            str(record.fired),
            str(record.kept),
            str(record.rejected),
            *(_cost_text(cost, record.unit) for cost in (record.before, record.after)),
        )
        for record in passes.values()
        if record.fired
    ]


def pass_table(passes: Mapping[str, PassRecord]) -> Table:
    """Return the rows as a table. A cost is the one by which the pass was judged: bytes sent per device, or predicted
    seconds.
    """
    unfired = [record for record in passes.values() if not record.fired]
    title = f"Passes that changed something; {len(unfired)} others had nothing to do in {sum(unfired_record.seconds for unfired_record in unfired):.2f} s"
    second_texts = [f"{record.seconds:.3f}" for record in passes.values() if record.fired]
    rows = [(*row, seconds) for row, seconds in zip(pass_rows(passes), second_texts, strict=True)]
    return table_of(title, (*COLUMNS, "seconds"), rows)


def pass_records(passes: Mapping[str, PassRecord]) -> list[dict[str, Any]]:
    """Return the records of all passes, for `--json`, including those that changed nothing."""
    return [asdict(record) | {"rejected": record.rejected} for record in passes.values()]


def _cost_text(cost: float, unit: str) -> str:
    if not unit:
        return ""
    return bytes_text(cost) if unit == "B" else seconds_text(cost)
