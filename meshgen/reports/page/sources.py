"""The user's program with the collectives, bytes and seconds of each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from meshgen.ir.regions import program_nodes
from meshgen.reports.comms import Collective, total_of
from meshgen.reports.interface import Compiled

CONTEXT = 3  # lines shown around one that has a figure
MOST_WHOLE = 400  # lines of a file that is shown whole
MOST_LINES = 1500  # of a file that is shown


class Line(NamedTuple):
    """What a step does for a line: bytes per device, seconds on links and, of these, exposed, and seconds of kernels."""

    collectives: int
    ring_bytes: int
    seconds: float
    exposed_seconds: float
    kernel_seconds: float


def files(executable: Compiled) -> list[dict[str, Any]]:
    """Per file of the program its lines: number, text (empty where the file cannot be read), and figures if it has any."""
    paths = _paths(executable)
    by_file: dict[str, dict[int, Line]] = {}
    for (file, line), figure in figures(executable).items():
        by_file.setdefault(file, {})[line] = figure
    order = sorted(
        by_file, key=lambda name: -sum(each.seconds + each.kernel_seconds for each in by_file[name].values())
    )
    return [{"name": file, "lines": list(_lines(by_file[file], paths.get(file)))} for file in order]


def figures(executable: Compiled) -> dict[tuple[str, int], Line]:
    """What each line costs, by base name of its file and number."""
    rows: dict[tuple[str, int], list[Collective]] = {}
    kernels: dict[tuple[str, int], float] = {}
    for part in executable.parts:
        for row in part.comms:
            if (place := _place(row.source)) is not None:
                rows.setdefault(place, []).append(row)
        for each in part.plan.launches():
            if each.item.kernel and (place := _place(each.item.source)) is not None:
                kernels[place] = kernels.get(place, 0.0) + each.item.seconds * each.times
    totals = {place: total_of(rows.get(place, ())) for place in rows | kernels}
    return {
        place: Line(total.times, total.ring_bytes, total.seconds, total.exposed_seconds, kernels.get(place, 0.0))
        for place, total in totals.items()
    }


def _place(source: str) -> tuple[str, int] | None:
    file, _, line = source.partition(" in ")[0].rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None


def _paths(executable: Compiled) -> dict[str, Path]:
    """The files that can be read, by their base names; of two of one name the first."""
    found: dict[str, Path] = {}
    for part in executable.parts:
        for node in program_nodes(next(iter(part.stages.values())).graph):
            if node.loc and (name := PurePath(node.loc.file).name) not in found:
                path = Path(node.loc.file)
                found |= {name: path} if path.is_file() else {}
    return found


def _lines(found: dict[int, Line], path: Path | None) -> Iterator[list[Any]]:
    """Number, text and figures; a file of many lines is shown around those with figures."""
    texts = path.read_text(errors="replace").splitlines() if path else []
    if len(texts) <= MOST_WHOLE:
        shown = set(range(1, len(texts) + 1)) | found.keys()
    else:
        near = {each for line in found for each in range(line - CONTEXT, line + CONTEXT + 1)}
        shown = {each for each in near if 0 < each <= len(texts)} | found.keys()
    for number in sorted(shown)[:MOST_LINES]:
        text = texts[number - 1] if 0 < number <= len(texts) else ""
        yield [number, text[:200], *([found[number]] if number in found else [])]
