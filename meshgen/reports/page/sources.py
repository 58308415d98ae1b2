"""The user's source lines, each with the collectives, bytes and seconds that it causes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from meshgen.ir.regions import program_nodes
from meshgen.reports.comms import Collective, total_of
from meshgen.reports.interface import Compiled

CONTEXT = 3  # chosen: lines shown before and after a line with figures
MOST_WHOLE = 400  # chosen: number of lines up to which a file is shown entirely
MOST_LINES = 1500  # chosen: number of lines that are shown of one file, so that the page stays small


class Line(NamedTuple):
    """The cost of a source line per step: bytes per device, total and exposed seconds of collectives, seconds of
    kernels.
    """

    collectives: int
    ring_bytes: int
    seconds: float
    exposed_seconds: float
    kernel_seconds: float


def files(executable: Compiled) -> list[dict[str, Any]]:
    """Return the lines of each source file: number, text, and cost figures if the line has any.

    The text is empty if the file cannot be read.
    """
    paths = _paths(executable)
    by_file: dict[str, dict[int, Line]] = {}
    for (file, line), figure in figures(executable).items():
        by_file.setdefault(file, {})[line] = figure
    order = sorted(
        by_file, key=lambda name: -sum(cost.seconds + cost.kernel_seconds for cost in by_file[name].values())
    )
    return [{"name": file, "lines": list(_lines(by_file[file], paths.get(file)))} for file in order]


def figures(executable: Compiled) -> dict[tuple[str, int], Line]:
    """Map (base name of the file, line number) to the cost of the line."""
    rows: dict[tuple[str, int], list[Collective]] = {}
    kernels: dict[tuple[str, int], float] = {}
    for part in executable.parts:
        for row in part.comms:
            if (place := _place(row.source)) is not None:
                rows.setdefault(place, []).append(row)
        for launch in part.plan.launches():
            if launch.item.kernel and (place := _place(launch.item.source)) is not None:
                kernels[place] = kernels.get(place, 0.0) + launch.item.seconds * launch.times
    totals = {place: total_of(rows.get(place, ())) for place in rows | kernels}
    return {
        place: Line(total.times, total.ring_bytes, total.seconds, total.exposed_seconds, kernels.get(place, 0.0))
        for place, total in totals.items()
    }


def _place(source: str) -> tuple[str, int] | None:
    file, _, line = source.partition(" in ")[0].rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None


def _paths(executable: Compiled) -> dict[str, Path]:
    """Return the readable source files by base name. Of several files with the same base name, the first is used."""
    paths: dict[str, Path] = {}
    for part in executable.parts:
        for node in program_nodes(next(iter(part.stages.values())).graph):
            if node.loc and (name := PurePath(node.loc.file).name) not in paths:
                path = Path(node.loc.file)
                paths |= {name: path} if path.is_file() else {}
    return paths


def _lines(figures_by_line: dict[int, Line], path: Path | None) -> Iterator[list[Any]]:
    """Yield the number, text and figures of the shown lines. A long file is shown only around lines with figures."""
    texts = path.read_text(errors="replace").splitlines() if path else []
    if len(texts) <= MOST_WHOLE:
        shown = set(range(1, len(texts) + 1)) | figures_by_line.keys()
    else:
        context = {nearby for line in figures_by_line for nearby in range(line - CONTEXT, line + CONTEXT + 1)}
        shown = {nearby for nearby in context if 0 < nearby <= len(texts)} | figures_by_line.keys()
    for line_number in sorted(shown)[:MOST_LINES]:
        text = texts[line_number - 1] if 0 < line_number <= len(texts) else ""
        yield [line_number, text[:200], *([figures_by_line[line_number]] if line_number in figures_by_line else [])]
