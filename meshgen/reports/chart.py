"""The timeline of a step as text: a row per stream, a column per slice of the step, and the longest launches by name."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.reports.interface import Compiled
from meshgen.reports.page.timeline import stream_names
from meshgen.reports.tables import WIDTH, seconds_text
from meshgen.runtime.plan import Item

_SHADES = " ░▒▓█"  # how much of a slice is busy: none, some, half, most, all
_LONGEST = 5  # launches that are named


def timeline_text(executable: Compiled, width: int = WIDTH) -> str:
    """Streams of all meshes over the predicted step, and what takes longest on each."""
    step = executable.cost.step_seconds
    several = len(executable.parts) > 1
    names = [
        [f"{f'@{part.mesh.name} ' if several else ''}{name}" for name in stream_names(part.plan)]
        for part in executable.parts
    ]
    left = max(len(name) for own in names for name in own) + 2
    columns = max(width - left, 10)
    lines = [f"{'':{left}}{_axis(step, columns)}"]
    launches: list[tuple[float, float, Item]] = []
    for number, part in enumerate(executable.parts):
        spans = [
            (start, start + item.seconds, item)
            for start, item in zip(executable.started(number), part.plan.items, strict=True)
        ]
        for stream, name in enumerate(names[number]):
            own = [(start, end) for start, end, item in spans if item.stream == stream]
            lines.append(f"{name:{left}}{_bar(own, step, columns)}".rstrip())
        launches += spans
    longest = sorted(launches, key=lambda span: span[0] - span[1])[:_LONGEST]
    lines += [
        "",
        "longest",
        *(
            f"  {seconds_text(item.seconds):>9}  from {seconds_text(start):>9}  {item.located()}"
            for start, _, item in longest
        ),
    ]
    return "\n".join(lines)


def _axis(step: float, columns: int) -> str:
    """The times at the ends and the middle."""
    half = columns // 2
    middle, end = seconds_text(step / 2), seconds_text(step)
    return f"{'0':{half}}{middle}".ljust(columns - len(end)) + end


def _bar(spans: Sequence[tuple[float, float]], step: float, columns: int) -> str:
    """A shade per column, by the share of its time in which something runs."""
    if not step:
        return ""
    busy = [0.0] * columns
    width = step / columns
    for start, end in spans:
        for column in range(int(start / width), min(columns, int(end / width) + 1)):
            busy[column] += max(0.0, min(end, (column + 1) * width) - max(start, column * width))
    return "".join(
        _SHADES[min(len(_SHADES) - 1, round(share / width * (len(_SHADES) - 1)) or int(share > 0))] for share in busy
    )
