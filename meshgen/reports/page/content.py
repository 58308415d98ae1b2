"""What the page shows of a program, as plain values: text for the template, and data for the script."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from meshgen.errors import place_text
from meshgen.frontend.tracer import spec
from meshgen.ir.graph import Graph
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import COMMUNICATING
from meshgen.reports.causes import groups_of
from meshgen.reports.comms import collective_record
from meshgen.reports.cost import cost_table
from meshgen.reports.donations import donation_tables
from meshgen.reports.ignored import annotation_record
from meshgen.reports.interface import Compiled
from meshgen.reports.link_classes import link_tables, machine_names
from meshgen.reports.memory import memory_table
from meshgen.reports.overlap import overlap_table
from meshgen.reports.page.kernels import code, kernels, roofline
from meshgen.reports.page.sources import files
from meshgen.reports.page.timeline import lanes, memory
from meshgen.reports.page.traffic import matrices
from meshgen.reports.passes import COLUMNS as PASS_COLUMNS
from meshgen.reports.passes import pass_rows
from meshgen.reports.picture import Grid, devices_text, show
from meshgen.reports.tables import Table, work_table
from meshgen.reports.verdict import verdict_of
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.sizes import sizes_text

MOST_PICTURES = 60  # of inputs and outputs whose tiles are drawn; those of one type and sharding share one
MOST_CELLS = 16  # along a side of a drawn grid


def content(executable: Compiled, command: str, loaded: LoadedModule | None = None) -> dict[str, Any]:
    """The page of a program on one mesh or several; `command` made it, of the module `loaded` if there is one."""
    groups = groups_of(executable)
    return {
        "sizes": sizes_text(executable.specialised) if executable.specialised else "",
        "place": f"{executable.place} on {machine_names(executable)}",
        "target": executable.target,
        "verdict": verdict_of(executable, groups).record(),
        "groups": [group.record() for group in groups],
        "tables": [table_record(table) for table in tables(executable)],
        "origin": origin(executable, command),
        "data": {
            "step": executable.cost.step_seconds * 1e6,
            "lanes": lanes(executable),
            "memory": memory(executable),
            "collectives": collectives(executable),
            "files": files(executable),
            "pictures": pictures(executable),
            "matrices": matrices(executable),
            "kernels": kernels(executable),
            "roofline": roofline(executable),
            "code": code(executable, loaded),
        },
    }


def origin(executable: Compiled, command: str) -> dict[str, Any]:
    """How to make the page again: the command, the version, and the hash of the program's text."""
    first = next(iter(executable.stages))
    text = executable.as_text(first)
    options = executable.options
    return {
        "command": command,
        "version": import_module("meshgen").__version__,
        "stage": first,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "options": {
            "target": options.target,
            "arguments": options.arguments,
            "skip": ", ".join(options.skip) or "none",
        },
    }


def collectives(executable: Compiled) -> list[dict[str, Any]]:
    """A record per collective, in the order in which they run, those of each mesh after those of the one before."""
    kept = ("kind", "reduction", "axes", "ring_bytes", "times", "why", "source", "seconds", "exposed_seconds")
    rows = ((row, collective_record(row)) for row in executable.comms)
    return [{"operand": row.operand} | {name: record[name] for name in kept} for row, record in rows]


def tables(executable: Compiled) -> list[Table]:
    """What the page shows as tables."""
    found = [cost_table(executable.cost), memory_table(executable.memory, 20), *link_tables(executable)]
    found += [*_warnings(executable), *_annotations(executable)]
    found += [table] if (table := overlap_table(executable)) else []
    found += [*donation_tables(executable), _inputs(executable)]
    found += [work_table(part.analysis) for part in executable.parts if part.analysis]
    return [*found, *_stages(executable), Table("Passes", PASS_COLUMNS, pass_rows(executable.passes))]


def table_record(table: Table) -> dict[str, Any]:
    """Cells with the side that they are aligned to."""
    left = [table.is_left(number) for number in range(len(table.columns))]
    return {"title": table.title, "columns": table.columns, "rows": table.rows, "left": left}


def _warnings(executable: Compiled) -> list[Table]:
    rows = [(each.code, place_text(each.loc), each.message, each.hint) for each in executable.warnings]
    columns = ("number", "at", "what", "way out")
    return [Table("Warnings", columns, rows, columns)] if rows else []


def _annotations(executable: Compiled) -> list[Table]:
    """The annotations that the optimised program does not follow; none if it follows all."""
    found = annotation_record(executable)
    rows = [("required", each) for each in found["not_as_required"]]
    rows += [("hint", each) for each in found["hints_that_lost"]]
    cells = [(kind, each["value"], each["location"], each["asked"], each["why"]) for kind, each in rows]
    columns = ("annotation", "of", "at", "asks", "why")
    return [Table("Annotations that the program does not follow", columns, cells, columns)] if cells else []


def _stages(executable: Compiled) -> list[Table]:
    """How many operations each stage has, and how many collectives of each kind: what the passes between them changed."""
    found: list[Table] = []
    for part in executable.parts:
        counts = {stage: _counts(module.graph) for stage, module in part.stages.items()}
        kinds = list(dict.fromkeys(kind for each in counts.values() for kind in each))
        rows = [(stage, *(str(each.get(kind, "")) for kind in kinds)) for stage, each in counts.items()]
        there = f" on @{part.mesh.name}" if len(executable.parts) > 1 else ""
        title = f"From stage to stage{there}: operations, and collectives of each kind"
        found.append(Table(title, ("stage", *kinds), rows))
    return found


def _counts(graph: Graph) -> dict[str, int]:
    ops = [node.op for node in all_nodes(graph)]
    return {"operations": len(ops), **Counter(op for op in ops if op in COMMUNICATING)}


def _inputs(executable: Compiled) -> Table:
    rows: list[tuple[str, ...]] = []
    for part in executable.parts:
        module, mesh = part.fused, f" on @{part.mesh.name}" if len(executable.parts) > 1 else ""
        triples = zip(module.graph.inputs, module.in_types, module.in_shardings, strict=True)
        rows += [(value.name, str(kind), f"{sharding}{mesh}", str(value.type)) for value, kind, sharding in triples]
    columns = ("input", "global type", "sharding", "local type")
    return Table("Inputs", columns, rows, columns)


def pictures(executable: Compiled) -> list[dict[str, Any]]:
    """The tiles of inputs and outputs: those of one type and sharding share a picture."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for part in executable.parts:
        module = part.fused
        ends = [*zip(module.graph.inputs, module.in_types, module.in_shardings, strict=True)]
        ends += [*zip(module.graph.outputs, module.out_types, module.out_shardings, strict=True)]
        for value, kind, sharding in ends:
            key = (part.mesh.name, str(kind), str(sharding))
            if key not in found and len(found) < MOST_PICTURES:
                drawn = show(sharding, spec(str(kind)).sizes, part.mesh)
                found[key] = {
                    "title": drawn.title,
                    "names": [],
                    "grids": [grid_record(each) for each in drawn.grids[:4]],
                }
            if key in found:
                found[key]["names"].append(value.name)
    return list(found.values())


def grid_record(grid: Grid) -> dict[str, Any]:
    """A grid with the devices of each cell as text and as the number of the first."""
    cells = [row[:MOST_CELLS] for row in grid.cells[:MOST_CELLS]]
    texts: Sequence[Any] = [[[devices_text(cell), cell[0] if cell else -1] for cell in row] for row in cells]
    return asdict(grid) | {"rows": grid.rows[:MOST_CELLS], "columns": grid.columns[:MOST_CELLS], "cells": texts}
