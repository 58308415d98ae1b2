"""Tables for people, and the texts of bytes and seconds in them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group

    from meshgen.sharding.analyze import Analysis

WIDTH = 150  # columns if the output is not a terminal


@dataclass(frozen=True)
class Table:
    """Cells under their title; columns are right-aligned except the first and those in `left`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()

    def is_left(self, number: int) -> bool:
        return number == 0 or self.columns[number] in self.left

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False, header_style="bold")
        for number, column in enumerate(self.columns):
            justify = "left" if self.is_left(number) else "right"
            table.add_column(column, justify=justify, overflow="fold", no_wrap=column != "why")
        for row in self.rows:
            table.add_row(*row)
        return Group(Text(self.title, style="bold"), table)

    def is_plain(self, width: int) -> bool:
        """Whether it fits into so many columns, and no cell has characters that take more than a column, or none."""
        lines = (self.columns, *self.rows)
        cells = (cell for line in lines for cell in line)
        if not all(cell.isascii() and cell.isprintable() and cell == cell.strip() for cell in (self.title, *cells)):
            return False
        widths = [max(len(line[number]) for line in lines) for number in range(len(self.columns))]
        return max(len(self.title), sum(widths) + 2 * (len(widths) - 1)) <= width

    def plain(self) -> str:
        """The table where rich is not installed, or has nothing to do: no line is folded."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[number]) for line in lines) for number in range(len(self.columns))]
        aligned = [
            [
                cell.ljust(width) if self.is_left(n) else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            for line in lines
        ]
        return "\n".join([self.title, *("  ".join(line).rstrip() for line in aligned)])


def render(*tables: Table | str, html: bool = False, width: int = WIDTH) -> str:
    """Tables and lines as plain text, or as an HTML fragment."""
    is_plain = not html and all(isinstance(table, Table) and table.is_plain(width) for table in tables)
    if is_plain or not find_spec("rich"):
        text = "\n".join(each if isinstance(each, str) else each.plain() for each in tables)
        return f"<pre>{escape(text)}</pre>" if html else text
    from rich.console import Console

    plain: dict[str, Any] = {"color_system": None, "highlight": False, "markup": False, "emoji": False}
    console = Console(file=io.StringIO(), width=width, record=html, _environ={}, **plain)
    for table in tables:
        console.print(table)
    if html:
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def table_of(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Sequence[str] = ()
) -> Table:
    """A table of whatever has a text."""
    return Table(title, columns, [[str(cell) for cell in row] for row in rows], left)


def bytes_text(count: float) -> str:
    """A size with three digits: `131 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"


def seconds_text(seconds: float) -> str:
    """A time with three digits: `12.5 us`; less than a picosecond is rounding."""
    if seconds < 1e-12:
        return "0 us"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def counted(count: int, word: str) -> str:
    """`1 launch`, `2 launches`, `3 ranks`."""
    return f"{count} {word}{'' if count == 1 else 'es' if word.endswith('ch') else 's'}"


def work_table(analysis: Analysis, most: int = 8) -> Table:
    """The ops that repeat the most work, else those that do the most."""
    ordered = sorted(analysis.work, key=lambda work: (-work.redundant, -work.flops))
    rows = [
        (work.op, f"%{work.name}" if work.name else "", f"{work.flops:.3g}", f"{work.redundant:.3g}", work.source)
        for work in ordered[:most]
    ]
    total, redundant = analysis.flops_per_device, analysis.redundant_flops_per_device
    share = f"{100 * redundant / total:.2g} %" if total else "none"
    title = f"Arithmetic: {total:.4g} operations per device, {share} of it redundant (repeated on other devices, or padding)"
    return table_of(title, ("op", "value", "operations", "redundant", "from"), rows, left=("value", "from"))


def seconds_table(seconds: Mapping[str, float]) -> Table:
    total = sum(seconds.values())
    rows = [(stage, f"{value:.2f}", f"{100 * value / total if total else 0:.0f} %") for stage, value in seconds.items()]
    return table_of("Where time went", ("stage", "seconds", "share"), [*rows, ("total", f"{total:.2f}", "100 %")])


def kernel_table(kernels: Sequence[Mapping[str, Any]]) -> Table:
    """Registers per thread, spilled bytes and shared memory of each kernel on each architecture."""
    archs = list(dict.fromkeys(arch for kernel in kernels for arch in kernel["binaries"]))
    columns = [f"{arch} {figure}" for arch in archs for figure in ("registers", "spills", "shared")]
    rows = [
        (
            kernel["name"],
            kernel["launches"],
            "x".join(map(str, kernel["grid"])),
            *(
                kernel["binaries"].get(arch, {}).get(key, "")
                for arch in archs
                for key in ("regs", "spill_bytes", "shared")
            ),
        )
        for kernel in kernels
    ]
    launches = sum(kernel["launches"] for kernel in kernels)
    return table_of(
        f"Kernels: {counted(launches, 'launch')}, {len(kernels)} distinct",
        ("kernel", "launches", "grid", *columns),
        rows,
    )
