"""Explanations of collectives and shardings, from what propagation and the resharding planner recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError, place_text
from meshgen.notation import parse_sharding
from meshgen.reports.chart import timeline_text
from meshgen.reports.collectives import Served, collective_text, explained, served
from meshgen.reports.comms import comms_table
from meshgen.reports.gathers import gathers, gathers_table
from meshgen.reports.ignored import ignored_of
from meshgen.reports.interface import Compiled
from meshgen.reports.parts import Across
from meshgen.reports.picture import Picture, show
from meshgen.reports.summary import summary_of
from meshgen.reports.tables import WIDTH, render, table_of
from meshgen.reports.values import Question, known_of, parts_about
from meshgen.spec import Sharding


def explain(executable: Compiled, what: Question = None, *, verbose: bool = False) -> str:
    """Text: the verdict and the collectives by cause, or what concerns a value or a source line.

    `verbose`: without a value or line all collectives in notation, their formulas, and the annotations that lost.
    """
    if what is None and not verbose:
        return summary_of(executable).text()
    across, collectives = _across(executable), served(executable)
    texts: list[str] = []
    for part in parts_about(executable, what):
        own = [each for each in collectives if each.part is part]
        text = _program_text(part, own) if what is None else _value_text(part, own, what, across)
        texts.append(f"{across.heading(part)}\n{text}" if across else text)
    return "\n\n".join(texts)


def _across(executable: Compiled) -> Across | None:
    """How a program's meshes interact; None if it is on one."""
    return Across(executable) if len(executable.parts) > 1 else None


def _program_text(part: Compiled, own: Sequence[Served]) -> str:
    """Return the text about one mesh: its collectives, formulas of the bytes of each kind, gathers, and annotations that the plan does not follow."""
    first = own[0].number if own else 0
    lines = [line for title, each in ignored_of(part) for line in ("", title, *each)]
    found = gathers(part)
    tables = [*formula_tables(part), *(["", gathers_table(found, first)] if found else [])]
    return "\n".join([render(comms_table(part.comms, first), *tables).rstrip("\n"), *lines])


def _value_text(part: Compiled, own: Sequence[Served], what: str | int, across: Across | None) -> str:
    """The values of one mesh that are asked for, and the collectives about them."""
    texts = [_value_record_text(record) for record in _values(part, what, across)]
    moved = [each for each in own if each.is_about(what) or (across and across.is_about(each, what))]
    return "\n".join([*texts, *(f"\n{collective_text(_collective(each, across))}" for each in moved)])


def _values(part: Compiled, what: Question, across: Across | None) -> list[dict[str, Any]]:
    records = known_of(part).records(what)
    return [across.placed(part, value, record) if across else record for value, record in records]


def _collective(each: Served, across: Across | None) -> dict[str, Any]:
    return across.collective(each, explained(each)) if across else explained(each)


def explain_collective(executable: Compiled, number: int) -> list[dict[str, Any]]:
    """All that is known of one collective, by its number in the order in which they run.

    Raises UsageError (MG0001) for a number that is too large.
    """
    collectives = served(executable)
    if not 0 <= number < len(collectives):
        hint = f"they are numbered from 0 to {len(collectives) - 1}" if collectives else "it has none"
        raise UsageError(Diagnostic("MG0001", f"the program has no collective {number}", hint=hint))
    return [_collective(collectives[number], _across(executable))]


def shown(executable: Compiled, what: Question, width: int = WIDTH) -> str:
    """The timeline of a step, or the tiles of the values of a name or line, as text. Raises as `pictures`."""
    return timeline_text(executable, width) if what is None else "\n\n".join(map(str, pictures(executable, what)))


def pictures(executable: Compiled, what: str | int) -> list[Picture]:
    """Which devices hold which tiles of the values of a name or line. Raises UsageError (MG0001) if there are none."""
    from meshgen.frontend.tracer import spec  # it imports all operations of the tracer

    found: list[Picture] = []
    for part in parts_about(executable, what):
        for record in known_of(part).values(what):
            sharding = replace(parse_sharding(record["spec"]), mesh="") if record["spec"] else Sharding.replicated(0)
            found.append(show(sharding, spec(record["type"]).sizes, part.mesh))
    return found


def formula_record(executable: Compiled) -> dict[str, Any]:
    """For `--json`: formulas of the bytes moved."""
    if len(executable.parts) > 1:
        return {"formulas": {part.mesh.name: formula_record(part).get("formula") for part in executable.parts}}
    volume = executable.volume
    return {"formula": volume.formula_record()} if volume else {}


def work_records(executable: Compiled) -> list[dict[str, Any]]:
    """For `--json`: the work of each op before partition, of all meshes; empty where the program was entered later."""
    analyses = [part.analysis for part in executable.parts]
    return [work.record() for analysis in analyses if analysis for work in analysis.work]


def formula_tables(executable: Compiled) -> list[Any]:
    """What each kind moves in terms of the numbers of devices."""
    volume = executable.volume
    if volume is None or not executable.comms:
        return []
    rows: list[tuple[object, ...]] = [
        (kind, volume.counts[kind], formula) for kind, formula in volume.formulas_by_kind().items()
    ]
    if len(rows) > 1:
        rows.append(("total", sum(volume.counts.values()), volume.formula))
    names = ", ".join(f"{name} = {size}" for name, size in volume.formula.now.items())
    title = "Bytes per device in the numbers of devices along the axes, for this plan" + (f"; {names}" if names else "")
    return ["", table_of(title, ("kind", "count", "bytes"), rows, left=("bytes",))]


def explanations(executable: Compiled, what: Question = None) -> list[dict[str, Any]]:
    """A record per value: its sharding (`spec`: as --spec and --what-if take it), the op that makes it, why each axis is used or not, and the chain to an annotation.

    For a given value or line also the rejected alternatives, with what they would cost.

    Args:
        what: a value's name (with or without `%`), a line number, or None for every value.
    Raises:
        UsageError: MG0001 for an unknown name or a line without values, and for a value of a program that was
            entered after its shardings were chosen.
    """
    if what is None and "propagate" not in executable.stages:
        return []
    across = _across(executable)
    return [record for part in parts_about(executable, what) for record in _values(part, what, across)]


def _value_record_text(record: dict[str, Any]) -> str:
    place = record["location"]
    where = f"  at {place_text(Location(**place))}" if place else ""
    name = f"%{record['value']} = " if record["value"] else ""
    spec = f", as a spec {record['spec']}" if record["spec"] else ""
    there = (
        f" on @{record['mesh']}" + (f" ({record['placed']})" if record["placed"] else "") if "mesh" in record else ""
    )
    head = f"{name}{record['op']}{there}: {record['type']} {record['sharding']}{spec}{where}"
    lines = record["why"] if record["op"] == "input" or not record["chain_text"] else []
    whole = [f"{axis} is not used: {why}" for axis, why in record["whole"].items()]
    others = [f"  {other['text']}" for other in record.get("rivals", ())]
    lines = [record["note"]] * bool(record["note"]) + lines
    body = [*lines, *record["chain_text"], *whole, *(["other choices:", *others] if others else [])]
    return "\n".join([head, *(f"    {line}" for line in body)])
