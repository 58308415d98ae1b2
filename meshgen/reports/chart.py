"""Draw the timeline of a step as text: a row per stream, a column per time slice, and the names of the longest
launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from meshgen.reports.interface import Compiled
from meshgen.reports.page.timeline import streams
from meshgen.reports.tables import WIDTH, seconds_text
from meshgen.runtime.plan import Item

_SHADES = " ░▒▓█"  # shades for the fraction of a time slice in which the stream is busy: none, some, half, most, all
_LONGEST = 5  # chosen: number of launches listed by name, so that the timeline fits a terminal


def timeline_text(executable: Compiled, width: int = WIDTH) -> str:
    """Draw the streams of all meshes over the predicted step, and list the longest launches."""
    step, lanes = executable.cost.step_seconds, list(streams(executable))
    name_width = max(len(name) for name, _ in lanes) + 2
    columns = max(width - name_width, 10)
    bars = [_bar([span[:2] for span in launches], step, columns) for _, launches in lanes]
    lines = [f"{name:{name_width}}{bar}".rstrip() for (name, _), bar in zip(lanes, bars, strict=True)]
    launches = [launch for _, launches in lanes for launch in launches]
    longest = sorted(launches, key=lambda span: (span[0] - span[1], span[0]))[:_LONGEST]
    return "\n".join(
        [f"{'':{name_width}}{_axis(step, columns)}", *lines, "", "longest", *starmap(_launch_line, longest)]
    )


def _launch_line(start: float, _: float, item: Item) -> str:
    return f"  {seconds_text(item.seconds):>9}  from {seconds_text(start):>9}  {item.located()}"


def _axis(step: float, columns: int) -> str:
    """Return the time axis as a line of text: the times at the start, the middle and the end of the step."""
    half = columns // 2
    middle, end = seconds_text(step / 2), seconds_text(step)
    return f"{'0':{half}}{middle}".ljust(columns - len(end)) + end


def _bar(spans: Sequence[tuple[float, float]], step: float, columns: int) -> str:
    """Return a row of characters, one per time slice, each shaded by the fraction of the slice in which the stream is
    busy.
    """
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
