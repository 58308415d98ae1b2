"""Explanations of collectives and shardings, from what propagation and the resharding planner recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError, place_text
from meshgen.notation import parse_sharding
from meshgen.reports.annotations import hints_that_lost, not_as_required
from meshgen.reports.chart import timeline_text
from meshgen.reports.collectives import collective_records_of, collective_text, numbers_about
from meshgen.reports.comms import comms_table
from meshgen.reports.gathers import gathers, gathers_table
from meshgen.reports.interface import Compiled
from meshgen.reports.parts import Across
from meshgen.reports.picture import Picture, show
from meshgen.reports.summary import ignored_of, summary_of
from meshgen.reports.tables import WIDTH, render, table_of
from meshgen.reports.values import Question, known_of
from meshgen.spec import Sharding


def explain(executable: Compiled, what: Question = None, *, verbose: bool = False) -> str:
    """Text: the verdict and the collectives by cause, or what concerns a value or a source line.

    `verbose`: without a value or line all collectives in notation, their formulas, and the annotations that lost.
    """
    if what is None and not verbose:
        return summary_of(executable).text()
    if (across := _across(executable)) is None:
        return _explain_one(executable, what, None)
    texts = [(across.heading(part), _explain_one(part, what, across)) for part in _about(executable, what)]
    return "\n\n".join(f"{heading}\n{text}" for heading, text in texts)


def _across(executable: Compiled) -> Across | None:
    """How a program's meshes interact; None if it is on one."""
    if len(executable.parts) == 1:
        return None
    return Across(executable)


def _explain_one(executable: Compiled, what: Question, across: Across | None) -> str:
    """The text about the program of one mesh; `across` knows the other meshes, if any."""
    if what is None:
        first = across.first[executable.mesh.name] if across else 0
        lines = [line for title, each in ignored_of(executable) for line in ("", title, *each)]
        found = gathers(executable)
        tables = [*formula_tables(executable), *(["", gathers_table(found, first)] if found else [])]
        return "\n".join([render(comms_table(executable.comms, first), *tables).rstrip("\n"), *lines])
    texts = [_value_record_text(record) for record in _values(executable, what, across)]
    numbers = {*numbers_about(executable, what), *(across.transfers_about(executable, what) if across else ())}
    records = _collectives(executable, sorted(numbers), across)
    return "\n".join([*texts, *(f"\n{collective_text(record)}" for record in records)])


def annotation_record(executable: Compiled) -> dict[str, Any]:
    """For `--json`: the hints that lost, the required annotations that no value follows, and the axes without a proof, of all meshes."""
    parts = [(part, known_of(part).solved) for part in executable.parts if "propagate" in part.stages]
    return {
        "hints_that_lost": [asdict(hint) for part, solved in parts for hint in hints_that_lost(part, solved)],
        "not_as_required": [asdict(each) for part, solved in parts for each in not_as_required(part, solved)],
        "not_proven_best": [gap._asdict() for _, solved in parts if solved for gap in solved.gaps()],
    }


def _values(executable: Compiled, what: Question, across: Across | None) -> list[dict[str, Any]]:
    records = known_of(executable).records(what)
    return [across.placed(executable, value, record) if across else record for value, record in records]


def _collectives(executable: Compiled, numbers: Sequence[int], across: Across | None) -> list[dict[str, Any]]:
    """Records of collectives; if the program was written with them, it is their reason."""
    known = known_of(executable) if "propagate" in executable.stages else None
    records = collective_records_of(executable, known and known.solved, known and known.reasons, numbers)
    return [across.collective(executable, record) for record in records] if across else records


def explain_collective(executable: Compiled, number: int) -> list[dict[str, Any]]:
    """All that is known of one collective, by its number in the order in which they run.

    Raises UsageError (MG0001) for a number that is too large.
    """
    count = len(executable.comms)
    if not 0 <= number < count:
        hint = f"they are numbered from 0 to {count - 1}" if count else "it has none"
        raise UsageError(Diagnostic("MG0001", f"the program has no collective {number}", hint=hint))
    across = _across(executable)
    firsts = across.first if across else {executable.mesh.name: 0}
    part = next(part for part in reversed(executable.parts) if firsts[part.mesh.name] <= number)
    return _collectives(part, [number - firsts[part.mesh.name]], across)


def _about(executable: Compiled, what: Question) -> list[Compiled]:
    """The parts that know a value or line, all of them for everything. Raises UsageError MG0001 where none does."""
    if what is None:
        return list(executable.parts)
    found: list[Compiled] = []
    faults: list[Diagnostic] = []
    for part in executable.parts:
        try:
            known_of(part).values(what)
            found.append(part)
        except UsageError as error:
            faults += error.diagnostics
    if not found:
        raise UsageError(*faults)
    return found


def shown(executable: Compiled, what: Question, width: int = WIDTH) -> str:
    """The timeline of a step, or the tiles of the values of a name or line, as text. Raises as `pictures`."""
    return timeline_text(executable, width) if what is None else "\n\n".join(map(str, pictures(executable, what)))


def pictures(executable: Compiled, what: str | int) -> list[Picture]:
    """Which devices hold which tiles of the values of a name or line. Raises UsageError (MG0001) if there are none."""
    from meshgen.frontend.tracer import spec  # it imports all operations of the tracer

    found: list[Picture] = []
    for part in _about(executable, what):
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
    if (across := _across(executable)) is None:
        return known_of(executable).values(what)
    return [record for part in _about(executable, what) for record in _values(part, what, across)]


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
