"""Find annotation changes that make a step shorter or move fewer bytes, by planning the program again with each change.

Candidates drop an annotation that causes collectives, or split a value that several devices compute redundantly. Each
candidate is planned without the other candidates, so the promised figures are what compiling with it predicts. A drop
is reported if fewer bytes move and the step does not become slower. A split is reported if the step becomes faster.
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
from meshgen.reports.annotation_changes import Advice, Change, figures_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, figure_text, table_of

Plan = Callable[[Module, Options, Timing], Compiled]
# chosen: number of changes that are planned even after `SECONDS` have passed: those with the largest possible saving
LEAST_TRIED = 8
# chosen: seconds after which only the first `LEAST_TRIED` changes are still planned, so that `explain` stays
# interactive
SECONDS = 5.0
# chosen: seconds after which no change is planned any more, not even one of the first `LEAST_TRIED`
MOST_SECONDS = 60.0
# chosen: a change that achieves this fraction of its largest possible saving ends the search in its group of exclusive
# changes
ENOUGH = 0.5
# chosen: numbers of drop and split candidates that are planned for the hint of a gather that `strict` refuses
STRICT_DROPS, STRICT_SPLITS = 3, 2


def advise(
    executable: Compiled, plan: Plan, numbers: Sequence[int] | None = None, progress: Progress | None = None
) -> list[Advice]:
    """Return the annotation changes that improve the step, those with the shortest step first.

    Changes with the largest possible saving are planned first: eight within one minute, and more only within the first
    five seconds.

    Args:
        plan: compiles a module to an executable, as `meshgen.api.plan_module` does.
        numbers: indices of the collectives to improve; None for all.
        progress: called before each change is planned.
    """
    if "propagate" not in executable.stages or "import" not in executable.stages:
        return []
    kinds = (splits, scatters, orders, drops)
    changes = [change for candidates_of in kinds for change in candidates_of(executable, numbers)]
    changes.sort(key=lambda change: -change.seconds)
    return _profitable_changes(executable, plan, changes, progress)


def best_change(executable: Compiled, plan: Plan, numbers: Sequence[int]) -> str:
    """Return a hint that names the change which makes the step shortest, or "" if no change improves the step.

    Only the candidates that could save the most time of the collectives with the indices `numbers` are planned.
    """
    candidates: list[Change] = []
    for changes, max_candidates in ((splits, STRICT_SPLITS), (drops, STRICT_DROPS)):
        candidates += sorted(changes(executable, numbers), key=lambda change: -change.seconds)[:max_candidates]
    if not (best := next(iter(_profitable_changes(executable, plan, candidates)), None)):
        return ""
    name = f"%{best.value}" if best.value else "its value"
    then = f": {name} then has sharding {best.instead}" if best.kind == "drop" else ""
    old, new = _figure_texts(best.before), _figure_texts(best.after)
    return f"it saves the most to {best.change}{then}, and a step takes {new[1]} instead of {old[1]} and moves {new[0]} instead of {old[0]} per device"


def _profitable_changes(
    executable: Compiled, plan: Plan, changes: Sequence[Change], progress: Progress | None = None
) -> list[Advice]:
    """Plan each change and return the profitable changes: the best of each group, ordered by the resulting step
    time.
    """
    begin, before = time.monotonic(), figures_of(executable)
    best: dict[str, Advice] = {}
    finished_groups: set[str] = set()
    for tried, change in enumerate(changes):
        if time.monotonic() - begin > (MOST_SECONDS if tried < LEAST_TRIED else SECONDS):
            break
        if progress:
            progress(change.text, tried, len(changes))
        advice = None if change.group in finished_groups else _try_change(executable, plan, change, before)
        if advice is None:
            continue
        if change.group not in best or _seconds_after(advice) < _seconds_after(best[change.group]):
            best[change.group] = advice
        if before["step_seconds"] - _seconds_after(advice) > ENOUGH * change.seconds:
            finished_groups.add(change.group)
    ordered = sorted(best.values(), key=lambda entry: (_seconds_after(entry), entry.after["ring_bytes"]))
    # Keep only the first of several changes that result in equal figures.
    advice = {tuple(entry.after.values()): entry for entry in reversed(ordered)}
    return [entry for entry in ordered if advice[tuple(entry.after.values())] is entry]


def _seconds_after(advice: Advice) -> float:
    return advice.after["step_seconds"]


def _try_change(executable: Compiled, plan: Plan, change: Change, before: dict[str, float]) -> Advice | None:
    """Plan the program with `change`, and return its advice, or None if it is not profitable or the program does not
    compile.
    """
    module = change.program()
    if module is None:
        return None
    try:
        after = plan(module, replace(executable.options, strict=False), Timing())
    except MeshgenError:  # other annotations conflict with the sharding that results from the change
        return None
    now, tolerance = figures_of(after), DEFAULT.scheduling.same_step
    if change.kind in ("drop", "reorder"):
        is_profitable = (
            now["ring_bytes"] < before["ring_bytes"] and now["step_seconds"] <= tolerance * before["step_seconds"]
        )
    else:
        is_profitable = tolerance * now["step_seconds"] < before["step_seconds"]
    return Advice(change.kind, change.text, change.value, *change.then(after), before, now) if is_profitable else None


def advice_table(executable: Compiled, advice_list: Iterable[Advice]) -> Table:
    """Return a table with a row per advised change: the change, and the figures of the step before and after it."""
    rows = [(advice.change, advice.instead, *_figure_texts(advice.after)) for advice in advice_list]
    now = ", ".join(f"{name} {text}" for name, text in zip(_NAMES, _figure_texts(figures_of(executable)), strict=True))
    title = f"Now: {now}. " + (
        "Better with one of these changes:" if rows else "None of the tried changes of one annotation is better"
    )
    return table_of(title, ("change", "sharding then", *_NAMES), rows, left=("sharding then",))


_NAMES = ("moved", "step", "peak memory")


def _figure_texts(figures: Mapping[str, float]) -> list[str]:
    return [figure_text(*figure) for figure in figures.items()]
