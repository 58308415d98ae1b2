"""The default output of `meshgen explain`: the verdict, the collectives by cause, and the annotations that the plan
overrides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from meshgen.errors import location_text
from meshgen.reports.causes import ALL, Filter, Group, groups_of
from meshgen.reports.comms import numbers_text
from meshgen.reports.gathers import gathers
from meshgen.reports.ignored import ignored_of
from meshgen.reports.interface import Compiled
from meshgen.reports.sentences import named
from meshgen.reports.tables import WIDTH, bytes_text, counted, seconds_text
from meshgen.reports.verdict import Verdict, verdict_of

TOP = 10  # chosen: number of collective groups shown in text
SHOWN = 3  # chosen: number of overridden annotations shown under each title
_INDENT = "    "


@dataclass(frozen=True)
class Summary:
    """The verdict, the selected groups of collectives, and further notes for the user."""

    verdict: Verdict
    groups: tuple[Group, ...]
    selection: Filter = ALL
    # (title, lines) pairs about deviations from annotations
    ignored: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    def record(self) -> dict[str, Any]:
        """Return the verdict and the groups as a JSON-serializable dict, for `--json`."""
        return {"verdict": self.verdict.record(), "groups": [group.record() for group in self.groups]}

    def text(self, top: int | None = TOP, width: int = WIDTH) -> str:
        """Render the summary as text. If a filter selected collectives, only their groups are shown.

        Args:
            top: number of groups to show; None for all.
        """
        lines = [str(self.verdict), ""] if self.selection == ALL else []
        lines += _group_lines(self.groups, len(self.groups) if top is None else top, width)
        for title, entries in self.ignored if self.selection == ALL else ():
            ellipsis = [f"... {len(entries) - SHOWN} more: explain -v"] if len(entries) > SHOWN else []
            lines += ["", title, *entries[:SHOWN], *ellipsis]
        return "\n".join(lines).rstrip("\n")


def summary_of(executable: Compiled, selection: Filter = ALL) -> Summary:
    """Return the summary of a program, with the groups of the collectives that match the filter `selection`."""
    groups = groups_of(executable)
    shown = groups if selection == ALL else groups_of(executable, selection)
    notes = (*gathered_of(executable), *ignored_of(executable))
    return Summary(verdict_of(executable, groups), tuple(shown), selection, notes)


def gathered_of(executable: Compiled) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a title with lines, one per value that is gathered although no annotation requires it, the most bytes
    first.
    """
    ordered = sorted(gathers(executable), key=lambda gather: -gather.ring_bytes)
    lines = [
        f"{named(gather.value) or location_text(gather.made) or 'a value'} over {', '.join(gather.axes)}, "
        f"for {location_text(gather.used) or named(gather.user) or 'its use'}: {bytes_text(gather.ring_bytes)}"
        for gather in ordered
    ]
    if lines:
        yield "Gathered although no annotation requires it (--strict refuses it)", tuple(lines)


def _runs_text(groups: Sequence[Group]) -> str:
    """Return as text the number of collectives that the groups execute per step."""
    return counted(sum(group.times for group in groups), "collective")


def _group_lines(groups: Sequence[Group], top: int, width: int) -> Iterator[str]:
    """Yield two or three lines for each of the `top` groups, and one line about the remaining groups."""
    if not groups:
        yield "no collectives"
        return
    yield f"{_runs_text(groups)} by cause, those that the step waits for longest first"
    for group in groups[:top]:
        yield f"  {group.title}: {group.figures}  [#{numbers_text(group.numbers)}]"
        yield from wrap(
            f"{group.sentence}.", width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
        )
    if omitted := groups[top:]:
        moved, seconds = sum(group.ring_bytes for group in omitted), sum(group.seconds for group in omitted)
        exposed = sum(group.exposed_seconds for group in omitted)
        yield (
            f"  {len(omitted)} more cause{'s' if len(omitted) > 1 else ''}, {_runs_text(omitted)}: {bytes_text(moved)}, "
            f"{seconds_text(seconds)}, {seconds_text(exposed)} not hidden: explain --top {len(groups)}"
        )
