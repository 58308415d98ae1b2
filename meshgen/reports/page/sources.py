"""The user's program with the collectives, bytes and seconds of each line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from meshgen.ir.regions import program_nodes
from meshgen.reports.interface import Compiled

CONTEXT = 3  # lines shown around one that has a figure
MOST_WHOLE = 400  # lines of a file that is shown whole
MOST_LINES = 1500  # of a file that is shown


@dataclass
class Line:
    """What a step does for a line: bytes per device, seconds on links and, of these, exposed, and seconds of kernels."""

    collectives: int = 0
    ring_bytes: int = 0
    seconds: float = 0.0
    exposed_seconds: float = 0.0
    kernel_seconds: float = 0.0

    def record(self) -> list[float]:
        return [self.collectives, self.ring_bytes, self.seconds, self.exposed_seconds, self.kernel_seconds]


def files(executable: Compiled) -> list[dict[str, Any]]:
    """Per file of the program its lines: number, text (empty where the file cannot be read), and figures if it has any."""
    found = figures(executable)
    paths = _paths(executable)
    by_file: dict[str, dict[int, Line]] = {}
    for (file, line), figure in found.items():
        by_file.setdefault(file, {})[line] = figure
    order = sorted(
        by_file, key=lambda file: -sum(each.seconds + each.kernel_seconds for each in by_file[file].values())
    )
    return [{"name": file, "lines": list(_lines(by_file[file], paths.get(file)))} for file in order]


def figures(executable: Compiled) -> dict[tuple[str, int], Line]:
    """What each line costs, by base name of its file and number."""
    found: dict[tuple[str, int], Line] = {}
    for part in executable.parts:
        for row in part.comms:
            if (place := _place(row.source)) is not None:
                line = found.setdefault(place, Line())
                line.collectives += row.times
                line.ring_bytes += row.ring_bytes * row.times
                line.seconds += row.seconds * row.times
                line.exposed_seconds += row.exposed_seconds * row.times
        for each in part.plan.launches():
            if each.item.kernel and (place := _place(each.item.source)) is not None:
                found.setdefault(place, Line()).kernel_seconds += each.item.seconds * each.times
    return found


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
        yield [number, text[:200], *([found[number].record()] if number in found else [])]
