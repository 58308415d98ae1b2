"""Write the index of decision records. Its entries come from the first lines of `docs/decisions/NNN-title.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "decisions"
AREAS = ("program", "sharding", "collectives", "schedule", "kernels", "run time", "checks", "front ends")
HEAD = re.compile(r"# (\d{3}): (.+)\n\nStatus: (accepted|superseded by \d{3}), (\d{4}-\d\d-\d\d)\. Area: ([a-z ]+)\.\n")
PARTS = ("Context", "Decision", "Evidence", "Consequences")


class Decision(NamedTuple):
    """An entry of the index, read from the first lines of a decision record."""

    path: Path
    number: str
    title: str
    status: str
    date: str
    area: str


def decisions() -> Iterator[Decision]:
    """Yield all records, ordered by number. Raises AssertionError if the first lines of a record have another form."""
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        head = HEAD.match(path.read_text())
        assert head, f"{path.name}: the first lines are '# NNN: title' and 'Status: accepted, YYYY-MM-DD. Area: name.'"
        record = Decision(path, *head.groups())
        assert path.name.startswith(f"{record.number}-") and record.area in AREAS, path.name
        yield record


def decisions_page(note: str) -> str:
    """Return the index: a table per area."""
    records = [*decisions()]
    assert [int(record.number) for record in records] == [*range(1, len(records) + 1)], "numbers have a gap"
    parts = [
        f"# Decision records\n\n{note}\nEach record says why a part of meshgen is as it is: context, decision, evidence and consequences. "
        "[How to add](../extending.md#a-decision-record) has the form. Figures of GPUs are predictions or come from the emulated GPU, unless a record "
        "says that they were measured.\n"
    ]
    for area in AREAS:
        rows = [f"| {record.number} | [{record.title}]({record.path.name}) | {record.status} |\n" for record in records if record.area == area]  # fmt: skip
        parts.append(f"## {area.capitalize()}\n\n| number | decision | status |\n| --- | --- | --- |\n{''.join(rows)}")
    return "\n".join(parts)
