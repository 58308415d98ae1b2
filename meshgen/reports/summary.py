"""What `meshgen explain` prints first: the verdict, the collectives by cause, and what the plan does not follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from meshgen.errors import place_text
from meshgen.reports.causes import ALL, Filter, Group, groups_of
from meshgen.reports.comms import numbers_text
from meshgen.reports.gathers import gathers
from meshgen.reports.ignored import ignored_of
from meshgen.reports.interface import Compiled
from meshgen.reports.sentences import named
from meshgen.reports.tables import WIDTH, bytes_text, counted, seconds_text
from meshgen.reports.verdict import Verdict, verdict_of

TOP = 10  # groups of collectives in text
SHOWN = 3  # of the annotations that lost
_INDENT = "    "


@dataclass(frozen=True)
class Summary:
    """The verdict, and the groups of collectives that were asked for; `ignored` is what else a user should know."""

    verdict: Verdict
    groups: tuple[Group, ...]
    asked: Filter = ALL
    ignored: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())  # titles, and what they list

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return {"verdict": self.verdict.record(), "groups": [group.record() for group in self.groups]}

    def text(self, top: int | None = TOP, width: int = WIDTH) -> str:
        """For people; `top`: so many groups, None for all. Nothing but the groups where some were asked for."""
        lines = [str(self.verdict), ""] if self.asked == ALL else []
        lines += _group_lines(self.groups, len(self.groups) if top is None else top, width)
        for title, found in self.ignored if self.asked == ALL else ():
            more = [f"... {len(found) - SHOWN} more: explain -v"] if len(found) > SHOWN else []
            lines += ["", title, *found[:SHOWN], *more]
        return "\n".join(lines).rstrip("\n")


def summary_of(executable: Compiled, asked: Filter = ALL) -> Summary:
    """The summary of a program on one mesh or several."""
    groups = groups_of(executable)
    shown = groups if asked == ALL else groups_of(executable, asked)
    notes = (*gathered_of(executable), *ignored_of(executable))
    return Summary(verdict_of(executable, groups), tuple(shown), asked, notes)


def gathered_of(executable: Compiled) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The values that are gathered though no annotation asks for it, those that move most first."""
    found = sorted(gathers(executable), key=lambda each: -each.ring_bytes)
    lines = [
        f"{named(each.value) or place_text(each.made) or 'a value'} over {', '.join(each.axes)}, "
        f"for {place_text(each.used) or named(each.user) or 'its use'}: {bytes_text(each.ring_bytes)}"
        for each in found
    ]
    if lines:
        yield "Gathered though no annotation asks for it (--strict refuses it)", tuple(lines)


def _runs_text(groups: Sequence[Group]) -> str:
    """The number of collectives that groups run in a step."""
    return counted(sum(group.times for group in groups), "collective")


def _group_lines(groups: Sequence[Group], top: int, width: int) -> Iterator[str]:
    """Two or three lines per group, and one for all that are not shown."""
    if not groups:
        yield "no collectives"
        return
    yield f"{_runs_text(groups)} by cause, those that the step waits for longest first"
    for group in groups[:top]:
        yield f"  {group.title}: {group.figures}  [#{numbers_text(group.numbers)}]"
        yield from wrap(
            f"{group.sentence}.", width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
        )
    if left := groups[top:]:
        moved, seconds = sum(group.ring_bytes for group in left), sum(group.seconds for group in left)
        exposed = sum(group.exposed_seconds for group in left)
        yield (
            f"  {len(left)} more cause{'s' if len(left) > 1 else ''}, {_runs_text(left)}: {bytes_text(moved)}, "
            f"{seconds_text(seconds)}, {seconds_text(exposed)} not hidden: explain --top {len(groups)}"
        )
