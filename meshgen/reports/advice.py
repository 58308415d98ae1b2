"""Which annotation to change, and what that saves: annotations that cause collectives are dropped, what devices repeat is split.

One at a time, and each time the program is planned again, so what is promised is what compiling it so gives. A drop is reported
where fewer bytes move and the step stays as short, a split where the step is shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import MeshgenError
from meshgen.ir.graph import Module
from meshgen.pipeline import Options, Progress, Timing
from meshgen.reports.advice_drops import drops
from meshgen.reports.advice_order import orders
from meshgen.reports.advice_scatters import scatters
from meshgen.reports.advice_splits import splits
from meshgen.reports.changes import Advice, Change, figures_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, figure_text, table_of

Plan = Callable[[Module, Options, Timing], Compiled]
LEAST_TRIED = 8  # changes that are tried first, those that could save the most
SECONDS = 5.0  # after which only these are tried
MOST_SECONDS = 60.0  # after which none is tried
ENOUGH = 0.5  # of what a change could save at most, from which others of its group are not tried
STRICT_DROPS, STRICT_SPLITS = 3, 2  # changes that are tried for a refused gather


def advise(
    executable: Compiled, plan: Plan, numbers: Sequence[int] | None = None, progress: Progress | None = None
) -> list[Advice]:
    """What may be changed for a shorter step, the shortest first; about some collectives by number, or all.

    Changes that could save the most are tried first: eight of them if that takes no more than a minute, and more for a few seconds.

    Args:
        plan: from a program to its executable, as `meshgen.api.plan_module`.
    """
    if "propagate" not in executable.stages or "import" not in executable.stages:
        return []
    kinds = (splits, scatters, orders, drops)
    changes = [change for each in kinds for change in each(executable, numbers)]
    changes.sort(key=lambda change: -change.seconds)
    return _tried(executable, plan, changes, progress)


def best_change(executable: Compiled, plan: Plan, numbers: Sequence[int]) -> str:
    """As a hint, the change that makes the step shortest, of those that could save most of some collectives; empty if none does."""
    found: list[Change] = []
    for changes, most in ((splits, STRICT_SPLITS), (drops, STRICT_DROPS)):
        found += sorted(changes(executable, numbers), key=lambda change: -change.seconds)[:most]
    if not (best := next(iter(_tried(executable, plan, found)), None)):
        return ""
    name = f"%{best.value}" if best.value else "its value"
    then = f": {name} then has sharding {best.instead}" if best.kind == "drop" else ""
    old, new = _figure_texts(best.before), _figure_texts(best.after)
    return f"it saves the most to {best.change}{then}, and a step takes {new[1]} instead of {old[1]} and moves {new[0]} instead of {old[0]} per device"


def _tried(
    executable: Compiled, plan: Plan, changes: Sequence[Change], progress: Progress | None = None
) -> list[Advice]:
    """Those of the changes that pay, of each group the best, the shortest step first."""
    begin, before = time.monotonic(), figures_of(executable)
    best: dict[str, Advice] = {}
    done: set[str] = set()
    for tried, change in enumerate(changes):
        if time.monotonic() - begin > (MOST_SECONDS if tried < LEAST_TRIED else SECONDS):
            break
        if progress:
            progress(change.text, tried, len(changes))
        found = None if change.group in done else _advice(executable, plan, change, before)
        if found is None:
            continue
        if change.group not in best or _seconds_after(found) < _seconds_after(best[change.group]):
            best[change.group] = found
        if before["step_seconds"] - _seconds_after(found) > ENOUGH * change.seconds:
            done.add(change.group)
    ordered = sorted(best.values(), key=lambda each: (_seconds_after(each), each.after["ring_bytes"]))
    found = {tuple(each.after.values()): each for each in reversed(ordered)}  # of equal ones the first
    return [each for each in ordered if found[tuple(each.after.values())] is each]


def _seconds_after(advice: Advice) -> float:
    return advice.after["step_seconds"]


def _advice(executable: Compiled, plan: Plan, change: Change, before: dict[str, float]) -> Advice | None:
    """What a change gives; None where it does not pay, or cannot be made."""
    module = change.program()
    if module is None:
        return None
    try:
        after = plan(module, replace(executable.options, strict=False), Timing())
    except MeshgenError:  # another annotation cannot be kept with it
        return None
    now, same = figures_of(after), DEFAULT.scheduling.same_step
    if change.kind in ("drop", "reorder"):
        pays = now["ring_bytes"] < before["ring_bytes"] and now["step_seconds"] <= same * before["step_seconds"]
    else:
        pays = same * now["step_seconds"] < before["step_seconds"]
    return Advice(change.kind, change.text, change.value, *change.then(after), before, now) if pays else None


def advice_table(executable: Compiled, found: Iterable[Advice]) -> Table:
    """For people: what to change, and what the step is then."""
    rows = [(advice.change, advice.instead, *_figure_texts(advice.after)) for advice in found]
    now = ", ".join(f"{name} {text}" for name, text in zip(_NAMES, _figure_texts(figures_of(executable)), strict=True))
    title = f"Now: {now}. " + (
        "Better with one of these changes:" if rows else "No change of one annotation that was tried is better"
    )
    return table_of(title, ("change", "sharding then", *_NAMES), rows, left=("sharding then",))


_NAMES = ("moved", "step", "peak memory")


def _figure_texts(figures: Mapping[str, float]) -> list[str]:
    return [figure_text(*figure) for figure in figures.items()]
