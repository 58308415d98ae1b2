"""Why collectives and shardings are as they are, from what propagation and the planner recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError
from meshgen.executable import Executable
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.records import Comms
from meshgen.sharding.analyze import Analysis, analyze
from meshgen.sharding.chains import Chain, Reasons
from meshgen.sharding.propagate import annotated, solve
from meshgen.sharding.unknown import nominal_mesh
from meshgen.tables import comms_table, render, table_of


def explain(executable: Executable, what: str | int | None = None) -> str:
    """Text for people: all collectives with their reasons, or what concerns a value or a source line."""
    if what is None:
        return render(comms_table(executable.comms), *formula_tables(executable))
    texts = [_text(record) for record in explanations(executable, what)]
    about = collectives_about(executable, what)
    if about:
        texts += ["", render(comms_table(about))]
    return "\n".join(texts)


def formulas(executable: Executable) -> Analysis | None:
    """The analysis whose formulas say what the planned collectives move; None for a program entered after that."""
    module = executable.stages.get("optimize") or executable.stages.get("materialize")
    return analyze(module) if module else None


def formula_record(executable: Executable) -> dict[str, Any]:
    """For `--json`: formulas, and the bytes that partition adds for what single ops need (numbers, on this mesh)."""
    analysis = formulas(executable)
    if analysis is None:
        return {}
    added = executable.comms.ring_bytes - analysis.ring_bytes
    return {"formula": analysis.formula_record() | {"added_by_partition": added}}


def formula_tables(executable: Executable) -> list[Any]:
    """What each kind moves in terms of the numbers of devices."""
    analysis = formulas(executable)
    if analysis is None or not executable.comms:
        return []
    rows: list[tuple[object, ...]] = [
        (kind, analysis.counts[kind], formula) for kind, formula in analysis.formulas_by_kind().items()
    ]
    rows.append(("total", sum(analysis.counts.values()), analysis.formula))
    if added := executable.comms.ring_bytes - analysis.ring_bytes:
        rows.append(("made by partition", "", f"{added} on this mesh"))
    title = "Bytes per device in the numbers of devices along the axes, for this plan"
    return ["", table_of(title, ("kind", "count", "bytes"), rows, left=("bytes",))]


def collectives_about(executable: Executable, what: str | int) -> Comms:
    """The collectives whose reason names a value or a line."""
    mark = f":{what})" if isinstance(what, int) else f"'{what.lstrip('%')}'"
    return Comms(tuple(row for row in executable.comms if mark in row.why))


def explanations(executable: Executable, what: str | int | None = None) -> list[dict[str, Any]]:
    """A record per value: its sharding, the op that makes it, why each axis is there, and the chain to an annotation.

    Args:
        what: a value's name (with or without `%`), a line number, or None for every value.
    Raises:
        UsageError: MG0001 where nothing has that name or stands on that line.
    """
    module, reasons = _propagated(executable)
    records = [
        _input(number, value, module, reasons)
        for number, value in enumerate(module.graph.inputs)
        if _is_meant(what, value, value.loc)
    ]
    for node in _nodes(module.graph):
        records += [
            _result(node, i, reasons) for i, value in enumerate(node.results) if _is_meant(what, value, node.loc)
        ]
    if not records and what is not None:
        names = [value.name for value in module.graph.values() if value.name]
        hint = f"values with a name are {', '.join(names[:40])}{' ...' if len(names) > 40 else ''}"
        missing = f"nothing stands on line {what}" if isinstance(what, int) else f"there is no value '{what}'"
        raise UsageError(Diagnostic("MG0001", missing, hint=hint))
    return records


def _propagated(executable: Executable) -> tuple[Module, Reasons | None]:
    """The program after propagation, and its chains where it was entered before (it is solved again, which gives the same)."""
    module = executable.stages.get("propagate")
    if module is None:
        raise UsageError(
            Diagnostic(
                "MG0001",
                f"the program entered at stage '{next(iter(executable.stages))}', after its shardings were chosen",
                hint="explain the program as it was before propagation",
            )
        )
    entered = executable.stages.get("import")
    if entered is None:
        return module, None
    solved = solve(replace(entered, mesh=nominal_mesh(entered)))
    return annotated(solved), Reasons(solved)


def _nodes(graph: Graph) -> Iterator[Node]:
    """Nodes in program order; those of loops and branches after their op."""
    for node in graph.nodes:
        if node.sharding is not None:
            yield node
        for region in node.regions if node.op in ("while", "case", "if") else ():
            yield from _nodes(region)


def _is_meant(what: str | int | None, value: Value, loc: Location | None) -> bool:
    if what is None:
        return True
    if isinstance(what, int):
        return loc is not None and loc.line == what
    return bool(value.name) and value.name == what.lstrip("%")


def _input(number: int, value: Value, module: Module, reasons: Reasons | None) -> dict[str, Any]:
    wish = module.in_annotations[number]
    kind = "required" if wish and wish.required else "hinted" if wish else ""
    why = [f"annotated as {wish.sharding} ({kind})"] if wish else ["not annotated: chosen for its uses"]
    return _record(value, "input", str(module.in_shardings[number]), why, value.loc, reasons)


def _result(node: Node, number: int, reasons: Reasons | None) -> dict[str, Any]:
    assert node.sharding is not None, "every node has a sharding after propagation"
    sharding = str(node.sharding.results[number])
    return _record(node.results[number], node.op, sharding, list(node.sharding.why), node.loc, reasons)


def _record(
    value: Value, op: str, sharding: str, why: list[str], loc: Location | None, reasons: Reasons | None
) -> dict[str, Any]:
    place = asdict(loc) if loc else None
    chains: list[Chain] = reasons.chains(value) if reasons else []
    return {
        "value": value.name,
        "op": op,
        "type": str(value.type),
        "sharding": sharding,
        "why": why,
        "chains": [chain.record() for chain in chains],
        "chain_text": [line for chain in chains for line in chain.lines()],
        "location": place,
    }


def _text(record: dict[str, Any]) -> str:
    place = record["location"]
    where = f"  at {place['file']}:{place['line']}" if place else ""
    head = f"%{record['value'] or '?'} = {record['op']}: {record['type']} {record['sharding']}{where}"
    return "\n".join([head, *(f"    {line}" for line in (*record["why"], *record["chain_text"]))])
