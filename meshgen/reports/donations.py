"""Report for each donated argument the result that reuses its memory, or why no result does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from meshgen.codegen.packaging.package import signature_names
from meshgen.codegen.scheduling.donation import donated
from meshgen.errors import Diagnostic
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, table_of


def donation_records(executable: Compiled) -> list[dict[str, Any]]:
    """Return a record per donated argument, for `--json`.

    A record names the result that reuses the argument's memory, or the reason why none does.
    """
    return [record for part in executable.parts for record in _records(part)]


def donation_tables(executable: Compiled) -> list[Table]:
    """Return a list with the table of donated arguments, or an empty list if none is donated."""
    rows = [(record["argument"], record["result"] or "", record["kept"]) for record in donation_records(executable)]
    columns = ("argument", "next value", "memory is not reused because")
    return [table_of("Donated arguments", columns, rows, left=columns[1:])] if rows else []


def donation_warnings(executable: Compiled) -> Iterator[Diagnostic]:
    """Yield MG0111 for each donated argument whose memory is not reused."""
    for part in executable.parts:
        inputs = dict(zip(_inputs(part), part.fused.graph.inputs, strict=True))
        for record in (candidate for candidate in _records(part) if candidate["kept"]):
            text = f"memory of donated argument '{record['argument']}' is not reused: {record['kept']}"
            yield Diagnostic("MG0111", text, inputs[record["argument"]].loc)


def _records(part: Compiled) -> Iterator[dict[str, Any]]:
    module = part.fused
    inputs, outputs = _inputs(part), signature_names("result", module.graph.outputs)
    donation = donated(module)
    for input_index in module.donations:
        output_index = donation.pairs.get(input_index)
        name = None if output_index is None else outputs[output_index]
        yield {"argument": inputs[input_index], "result": name, "kept": donation.unused.get(input_index, "")}


def _inputs(part: Compiled) -> list[str]:
    return signature_names("arg", part.fused.graph.inputs)
