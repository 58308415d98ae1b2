"""Explain collectives and shardings by the reasons that propagation and the reshard planner recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError, location_text
from meshgen.notation import parse_sharding
from meshgen.reports.chart import timeline_text
from meshgen.reports.collectives import ReshardingCollective, collective_text, explained, served
from meshgen.reports.comms import comms_table
from meshgen.reports.gathers import gathers, gathers_table
from meshgen.reports.ignored import ignored_of
from meshgen.reports.interface import Compiled
from meshgen.reports.mesh_interactions import Across
from meshgen.reports.picture import Picture, show
from meshgen.reports.summary import summary_of
from meshgen.reports.tables import WIDTH, render, table_of
from meshgen.reports.value_reasons import Question, known_of, parts_about
from meshgen.spec import Sharding


def explain(executable: Compiled, what: Question = None, *, verbose: bool = False) -> str:
    """Return as text the summary of a program, or the full explanation of one value or source line.

    Args:
        what: a value name or source line; None for the program.
        verbose: without `what`, also list all collectives, formulas of their bytes, and overridden annotations.
    """
    if what is None and not verbose:
        return summary_of(executable).text()
    across, collectives = _across(executable), served(executable)
    texts: list[str] = []
    for part in parts_about(executable, what):
        collectives_of_part = [collective for collective in collectives if collective.part is part]
        text = (
            _program_text(part, collectives_of_part)
            if what is None
            else _value_text(part, collectives_of_part, what, across)
        )
        texts.append(f"{across.heading(part)}\n{text}" if across else text)
    return "\n\n".join(texts)


def _across(executable: Compiled) -> Across | None:
    """Return the explanation of meshes and transfers, or None if the program has only one mesh."""
    return Across(executable) if len(executable.parts) > 1 else None


def _program_text(part: Compiled, collectives: Sequence[ReshardingCollective]) -> str:
    """Return the text about one mesh: its collectives, formulas of the bytes moved, gathers, and ignored annotations."""
    first = collectives[0].number if collectives else 0
    lines = [line for title, ignored_lines in ignored_of(part) for line in ("", title, *ignored_lines)]
    unannotated_gathers = gathers(part)
    tables = [*formula_tables(part), *(["", gathers_table(unannotated_gathers, first)] if unannotated_gathers else [])]
    return "\n".join([render(comms_table(part.comms, first), *tables).rstrip("\n"), *lines])


def _value_text(
    part: Compiled, collectives: Sequence[ReshardingCollective], what: str | int, across: Across | None
) -> str:
    """Return the text about the values that `what` selects on one mesh, and about their collectives."""
    texts = [_value_record_text(record) for record in _value_records(part, what, across)]
    moved = [
        collective
        for collective in collectives
        if collective.is_about(what) or (across and across.is_about(collective, what))
    ]
    return "\n".join(
        [*texts, *(f"\n{collective_text(_collective_record(collective, across))}" for collective in moved)]
    )


def _value_records(part: Compiled, what: Question, across: Across | None) -> list[dict[str, Any]]:
    records = known_of(part).records(what)
    return [across.placed(part, value, record) if across else record for value, record in records]


def _collective_record(collective: ReshardingCollective, across: Across | None) -> dict[str, Any]:
    return across.collective(collective, explained(collective)) if across else explained(collective)


def explain_collective(executable: Compiled, number: int) -> list[dict[str, Any]]:
    """Return the full explanation of one collective, by its index in execution order.

    Raises:
        UsageError: MG0001 if `number` is out of range.
    """
    collectives = served(executable)
    if not 0 <= number < len(collectives):
        hint = f"they are numbered from 0 to {len(collectives) - 1}" if collectives else "it has none"
        raise UsageError(Diagnostic("MG0001", f"the program has no collective {number}", hint=hint))
    return [_collective_record(collectives[number], _across(executable))]


def shown(executable: Compiled, what: Question, width: int = WIDTH) -> str:
    """Draw the timeline of a step as text, or the tiles of the values that a name or source line selects.

    Raises the same errors as `pictures`.
    """
    return timeline_text(executable, width) if what is None else "\n\n".join(map(str, pictures(executable, what)))


def pictures(executable: Compiled, what: str | int) -> list[Picture]:
    """Return a picture for each value that a name or source line selects. It shows the tile that each device holds.

    Raises:
        UsageError: MG0001 if nothing matches.
    """
    from meshgen.frontend.tracer import spec  # slow import: it loads all operations of the tracer

    drawings: list[Picture] = []
    for part in parts_about(executable, what):
        for record in known_of(part).values(what):
            sharding = replace(parse_sharding(record["spec"]), mesh="") if record["spec"] else Sharding.replicated(0)
            drawings.append(show(sharding, spec(record["type"]).sizes, part.mesh))
    return drawings


def formula_record(executable: Compiled) -> dict[str, Any]:
    """Return the bytes that collectives move as formulas, for `--json`."""
    if len(executable.parts) > 1:
        return {"formulas": {part.mesh.name: formula_record(part).get("formula") for part in executable.parts}}
    volume = executable.volume
    return {"formula": volume.formula_record()} if volume else {}


def work_records(executable: Compiled) -> list[dict[str, Any]]:
    """Return the work of each op before partitioning, for `--json`.

    The list is empty for a program that was loaded after partitioning.
    """
    analyses = [part.analysis for part in executable.parts]
    return [work.record() for analysis in analyses if analysis for work in analysis.work]


def formula_tables(executable: Compiled) -> list[Any]:
    """Return the table of the bytes that each kind of collective moves, as formulas in the mesh axis sizes."""
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
    """Return a record per value: its op, its sharding with the reasons, and why each mesh axis is used or unused.

    `spec` is the sharding in the notation of --spec and --what-if. If `what` is not None, records also have the
    rejected alternatives with their cost.

    Args:
        what: a value's name (with or without `%`), a line number, or None for every value.
    Raises:
        UsageError: MG0001 for an unknown name, for a line without values, and for a program that was loaded after its
            shardings were chosen.
    """
    if what is None and "propagate" not in executable.stages:
        return []
    across = _across(executable)
    return [record for part in parts_about(executable, what) for record in _value_records(part, what, across)]


def _value_record_text(record: dict[str, Any]) -> str:
    place = record["location"]
    where = f"  at {location_text(Location(**place))}" if place else ""
    name = f"%{record['value']} = " if record["value"] else ""
    spec = f", as a spec {record['spec']}" if record["spec"] else ""
    mesh_text = (
        f" on @{record['mesh']}" + (f" ({record['placed']})" if record["placed"] else "") if "mesh" in record else ""
    )
    head = f"{name}{record['op']}{mesh_text}: {record['type']} {record['sharding']}{spec}{where}"
    lines = record["why"] if record["op"] == "input" or not record["chain_text"] else []
    unused_axes = [f"{axis} is not used: {why}" for axis, why in record["whole"].items()]
    alternatives = [f"  {alternative['text']}" for alternative in record.get("rivals", ())]
    lines = [record["note"]] * bool(record["note"]) + lines
    body = [*lines, *record["chain_text"], *unused_axes, *(["other choices:", *alternatives] if alternatives else [])]
    return "\n".join([head, *(f"    {line}" for line in body)])
