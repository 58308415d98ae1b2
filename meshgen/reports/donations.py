"""Donated arguments: which result takes the memory of each, and why others keep theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from meshgen.codegen.packaging.package import signature_names
from meshgen.codegen.scheduling.donation import donated
from meshgen.errors import Diagnostic
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, table_of


def donation_records(executable: Compiled) -> list[dict[str, Any]]:
    """For `--json`: per donated argument its next value (None: no result fits), and why its memory is not reused."""
    return [record for part in executable.parts for record in _records(part)]


def donation_tables(executable: Compiled) -> list[Table]:
    """The same as tables; none if nothing is donated."""
    rows = [(each["argument"], each["result"] or "", each["kept"]) for each in donation_records(executable)]
    columns = ("argument", "next value", "memory is not reused because")
    return [table_of("Donated arguments", columns, rows, left=columns[1:])] if rows else []


def donation_warnings(executable: Compiled) -> Iterator[Diagnostic]:
    """MG0111 for each argument whose memory is not reused."""
    for part in executable.parts:
        inputs = dict(zip(_inputs(part), part.fused.graph.inputs, strict=True))
        for record in (each for each in _records(part) if each["kept"]):
            text = f"memory of donated argument '{record['argument']}' is not reused: {record['kept']}"
            yield Diagnostic("MG0111", text, inputs[record["argument"]].loc)


def _records(part: Compiled) -> Iterator[dict[str, Any]]:
    module = part.fused
    inputs, outputs = _inputs(part), signature_names("result", module.graph.outputs)
    found = donated(module)
    for number in module.donations:
        result = found.pairs.get(number)
        name = None if result is None else outputs[result]
        yield {"argument": inputs[number], "result": name, "kept": found.unused.get(number, "")}


def _inputs(part: Compiled) -> list[str]:
    return signature_names("arg", part.fused.graph.inputs)
