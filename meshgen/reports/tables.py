"""Tables for people, and the texts of bytes and seconds in them."""

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

WIDTH = 150  # columns if the output is not a terminal
_LEAST = 20  # columns of a folded one
_LITTLE = 0.01  # share of a device's operations: of less redundant work the ops are not listed


@dataclass(frozen=True)
class Table:
    """Cells under their title; columns are right-aligned except the first and those in `left`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()

    def is_left(self, number: int) -> bool:
        return number == 0 or self.columns[number] in self.left

    def text(self, width: int) -> str:
        """The table in so many columns, where all but the column `why` fit: that is folded. Other lines may be longer."""
        lines = [self.columns, *self.rows]
        widths = [max(_width(line[number]) for line in lines) for number in range(len(self.columns))]
        folded = next((number for number, name in enumerate(self.columns) if name == "why"), None)
        if folded is not None:
            others = sum(widths) - widths[folded] + 2 * (len(widths) - 1)
            widths[folded] = min(widths[folded], max(width - others, _LEAST))
        aligned = [self._aligned(part, widths) for line in lines for part in _folded(line, folded, widths)]
        return "\n".join([self.title, *aligned])

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> str:
        cells: list[str] = []
        for number, (cell, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - _width(cell))
            cells.append(cell + space if self.is_left(number) else space + cell)
        return "  ".join(cells).rstrip()


def _folded(line: Sequence[str], folded: int | None, widths: Sequence[int]) -> list[list[str]]:
    """A line as several where one of its cells takes more than its column."""
    if folded is None or _width(line[folded]) <= widths[folded]:
        return [list(line)]
    parts = wrap(line[folded], widths[folded], break_on_hyphens=False)
    return [
        [part if n == folded else "" if number else cell for n, cell in enumerate(line)]
        for number, part in enumerate(parts)
    ]


def _width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(each) in "WF" else 0 if combining(each) else 1 for each in text)


def render(*tables: Table | str, html: bool = False, width: int = WIDTH) -> str:
    """Tables and lines as plain text, or as an HTML fragment."""
    text = "\n".join(each if isinstance(each, str) else each.text(width) for each in tables)
    if not html:
        return text
    from html import escape

    return f"<pre>{escape(text)}</pre>"


def table_of(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Sequence[str] = ()
) -> Table:
    """A table of whatever has a text."""
    return Table(title, columns, [[str(cell) for cell in row] for row in rows], left)


def flops_text(count: float) -> str:
    """A number of floating-point operations with three digits: `34.4 GFLOP`."""
    return scaled_text(count, "FLOP", "kMGT")


def seconds_text(seconds: float) -> str:
    """A time with three digits: `12.5 us`; less than a picosecond is rounding."""
    if seconds < 1e-12:
        return "0 us"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def figure_text(figure: str, value: float) -> str:
    """A figure with the unit that its name ends with, such as `ring_bytes`, `step seconds` or `flops_per_device`; a count without one."""
    words = re.split(r"[ _]", figure)
    for unit, text in (("bytes", bytes_text), ("seconds", seconds_text), ("flops", flops_text)):
        if unit in words:
            return text(value)
    return str(value) if isinstance(value, int) else f"{value:g}"


def counted(count: int, word: str) -> str:
    """`1 launch`, `2 launches`, `3 ranks`."""
    return f"{count} {word}{'' if count == 1 else 'es' if word.endswith('ch') else 's'}"


def work_table(analysis: Analysis, most: int = 8) -> Table:
    """The ops that repeat the most work, or those that do the most where hardly any is repeated; alike ones in one row with their sums."""
    total, redundant = analysis.flops_per_device, analysis.redundant_flops_per_device
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in analysis.work:
        groups.setdefault((work.op, work.flops, work.redundant, work.repeats), []).append(work)
    sums = [(sum(w.redundant for w in group), sum(w.flops for w in group), group) for group in groups.values()]
    if is_telling := redundant > _LITTLE * total:
        sums = [each for each in sums if each[0] > _LITTLE * redundant]
    ordered = sorted(sums, key=lambda each: (-each[0] if is_telling else 0.0, -each[1]))
    rows = [_work_row(group, flops, repeated) for repeated, flops, group in ordered[:most]]
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
