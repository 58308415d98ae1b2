"""Text tables for reports, and the formatting of bytes, seconds and other figures in their cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

from meshgen.printable import bytes_text as bytes_text
from meshgen.printable import scaled_text

if TYPE_CHECKING:
    from meshgen.sharding.analyze import Analysis
    from meshgen.sharding.arithmetic import Work

WIDTH = 150  # chosen: table width in columns if the output is not a terminal
_LEAST = 20  # chosen: smallest width, in columns, to which a column is folded
_LITTLE = 0.01  # chosen: share of a device's operations below which ops with redundant work are not listed


@dataclass(frozen=True)
class Table:
    """A text table with a title. Columns are right-aligned, except the first column and the columns in `left`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()

    def is_left(self, column: int) -> bool:
        return column == 0 or self.columns[column] in self.left

    def text(self, width: int) -> str:
        """Render the table in `width` characters by folding the column `why`. Lines exceed `width` if the other columns
        need it.
        """
        lines = [self.columns, *self.rows]
        widths = [max(_width(line[column]) for line in lines) for column in range(len(self.columns))]
        folded = next((column for column, name in enumerate(self.columns) if name == "why"), None)
        if folded is not None:
            other_width = sum(widths) - widths[folded] + 2 * (len(widths) - 1)
            widths[folded] = min(widths[folded], max(width - other_width, _LEAST))
        aligned = [self._aligned(cells, widths) for line in lines for cells in _folded(line, folded, widths)]
        return "\n".join([self.title, *aligned])

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> str:
        cells: list[str] = []
        for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - _width(cell))
            cells.append(cell + space if self.is_left(column) else space + cell)
        return "  ".join(cells).rstrip()


def _folded(line: Sequence[str], folded: int | None, widths: Sequence[int]) -> list[list[str]]:
    """Split a table row into several lines if the cell in column `folded` is wider than the column."""
    if folded is None or _width(line[folded]) <= widths[folded]:
        return [list(line)]
    parts = wrap(line[folded], widths[folded], break_on_hyphens=False)
    return [
        [part if n == folded else "" if line_index else cell for n, cell in enumerate(line)]
        for line_index, part in enumerate(parts)
    ]


def _width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 0 if combining(character) else 1 for character in text)


def render(*tables: Table | str, html: bool = False, width: int = WIDTH) -> str:
    """Render tables and lines as plain text, or as an HTML fragment."""
    text = "\n".join(table if isinstance(table, str) else table.text(width) for table in tables)
    if not html:
        return text
    from html import escape

    return f"<pre>{escape(text)}</pre>"


def table_of(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Sequence[str] = ()
) -> Table:
    """Return a table whose cells are the `str` of the objects in `rows`."""
    return Table(title, columns, [[str(cell) for cell in row] for row in rows], left)


def flops_text(count: float) -> str:
    """Format a count of floating-point operations in three digits, such as `34.4 GFLOP`."""
    return scaled_text(count, "FLOP", "kMGT")


def seconds_text(seconds: float) -> str:
    """Format a time in three digits, such as `12.5 us`. A time below a picosecond is a rounding error and is shown as
    zero.
    """
    if seconds < 1e-12:
        return "0 us"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def figure_text(figure: str, value: float) -> str:
    """Format a figure by the unit in its name (`ring_bytes`, `step seconds`, `flops_per_device`), or as a count if the
    name has no unit.
    """
    words = re.split(r"[ _]", figure)
    for unit, text in (("bytes", bytes_text), ("seconds", seconds_text), ("flops", flops_text)):
        if unit in words:
            return text(value)
    return str(value) if isinstance(value, int) else f"{value:g}"


def counted(count: int, word: str) -> str:
    """Return a count with its noun, such as `1 launch`, `2 launches` or `3 ranks`."""
    return f"{count} {word}{'' if count == 1 else 'es' if word.endswith('ch') else 's'}"


def work_table(analysis: Analysis, max_rows: int = 8) -> Table:
    """Return a table of the ops with the most redundant work, or with the most work if hardly any work is redundant.

    Equal ops share a row, which has their totals.
    """
    total, redundant = analysis.flops_per_device, analysis.redundant_flops_per_device
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in analysis.work:
        groups.setdefault((work.op, work.flops, work.redundant, work.repeats), []).append(work)
    sums = [(sum(w.redundant for w in group), sum(w.flops for w in group), group) for group in groups.values()]
    if lists_redundant := redundant > _LITTLE * total:
        sums = [entry for entry in sums if entry[0] > _LITTLE * redundant]
    ordered = sorted(sums, key=lambda entry: (-entry[0] if lists_redundant else 0.0, -entry[1]))
    rows = [_work_row(group, flops, redundant_flops) for redundant_flops, flops, group in ordered[:max_rows]]
    share = f"{100 * redundant / total:.2g} %" if total else "none"
    title = (
        f"Arithmetic: {flops_text(total)} per device, {share} of it redundant (repeated on other devices, or padding)"
    )
    return table_of(
        title, ("op", "value", "operations", "redundant", "along", "from"), rows, left=("value", "along", "from")
    )


def _work_row(group: Sequence[Work], flops: float, redundant: float) -> tuple[str, ...]:
    first, times = group[0], f"{len(group)} x " if len(group) > 1 else ""
    name = f"%{first.name}" if first.name else ""
    return f"{times}{first.op}", name, flops_text(flops), flops_text(redundant), ", ".join(first.repeats), first.source


def seconds_table(seconds: Mapping[str, float]) -> Table:
    total = sum(seconds.values())
    rows = [(stage, f"{value:.2f}", f"{100 * value / total if total else 0:.0f} %") for stage, value in seconds.items()]
    return table_of("Where time went", ("stage", "seconds", "share"), [*rows, ("total", f"{total:.2f}", "100 %")])
