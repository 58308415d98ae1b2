"""The contents of the HTML page as JSON-serializable values: text for the template, and data for the script."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from meshgen.errors import location_text
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

MOST_PICTURES = 60  # chosen: number of drawn inputs and outputs; values of equal type and sharding share a picture
MOST_CELLS = 16  # chosen: cells along a side of a drawn grid, so that device lists stay readable


def content(executable: Compiled, command: str, loaded: LoadedModule | None = None) -> dict[str, Any]:
    """Return the page content of a program.

    Args:
        command: the command line that the page shows as its origin.
        loaded: the module from which the page takes kernel code; None to generate the code.
    """
    groups = groups_of(executable)
    return {
        "sizes": sizes_text(executable.specialized) if executable.specialized else "",
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
    """Return the command line, the meshgen version, and a hash of the program's text, with which the page can be made
    again.
    """
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
    """Return a record per collective, mesh by mesh in execution order."""
    shown_fields = ("kind", "reduction", "axes", "ring_bytes", "times", "why", "source", "seconds", "exposed_seconds")
    rows = ((row, collective_record(row)) for row in executable.comms)
    return [{"operand": row.operand} | {name: record[name] for name in shown_fields} for row, record in rows]


def tables(executable: Compiled) -> list[Table]:
    """Return the tables of the page."""
    page_tables = [cost_table(executable.cost), memory_table(executable.memory, 20), *link_tables(executable)]
    page_tables += [*_warnings(executable), *_annotations(executable)]
    page_tables += [table] if (table := overlap_table(executable)) else []
    page_tables += [*donation_tables(executable), _inputs(executable)]
    page_tables += [work_table(part.analysis) for part in executable.parts if part.analysis]
    return [*page_tables, *_stages(executable), Table("Passes", PASS_COLUMNS, pass_rows(executable.passes))]


def table_record(table: Table) -> dict[str, Any]:
    """Return the cells of a table, and for each column whether it is left-aligned."""
    left_aligned = [table.is_left(column) for column in range(len(table.columns))]
    return {"title": table.title, "columns": table.columns, "rows": table.rows, "left": left_aligned}


def _warnings(executable: Compiled) -> list[Table]:
    rows = [
        (warning.code, location_text(warning.loc), warning.message, warning.hint) for warning in executable.warnings
    ]
    columns = ("number", "at", "what", "way out")
    return [Table("Warnings", columns, rows, columns)] if rows else []


def _annotations(executable: Compiled) -> list[Table]:
    """Return a list with the table of annotations that the optimized program does not follow, or an empty list without
    any.
    """
    record = annotation_record(executable)
    rows = [("required", annotation) for annotation in record["not_as_required"]]
    rows += [("hint", annotation) for annotation in record["hints_that_lost"]]
    cells = [
        (strength, annotation["value"], annotation["location"], annotation["asked"], annotation["why"])
        for strength, annotation in rows
    ]
    columns = ("annotation", "of", "at", "asks", "why")
    return [Table("Annotations that the program does not follow", columns, cells, columns)] if cells else []


def _stages(executable: Compiled) -> list[Table]:
    """Return tables of the op count and the collectives of each kind per stage, which show what the passes changed."""
    stage_tables: list[Table] = []
    for part in executable.parts:
        counts = {stage: _counts(module.graph) for stage, module in part.stages.items()}
        kinds = list(dict.fromkeys(kind for counts_of_stage in counts.values() for kind in counts_of_stage))
        rows = [
            (stage, *(str(counts_of_stage.get(kind, "")) for kind in kinds))
            for stage, counts_of_stage in counts.items()
        ]
        mesh_text = f" on @{part.mesh.name}" if len(executable.parts) > 1 else ""
        title = f"From stage to stage{mesh_text}: operations, and collectives of each kind"
        stage_tables.append(Table(title, ("stage", *kinds), rows))
    return stage_tables


def _counts(graph: Graph) -> dict[str, int]:
    ops = [node.op for node in all_nodes(graph)]
    return {"operations": len(ops), **Counter(op for op in ops if op in COMMUNICATING)}


def _inputs(executable: Compiled) -> Table:
    rows: list[tuple[str, ...]] = []
    for part in executable.parts:
        module, mesh = part.fused, f" on @{part.mesh.name}" if len(executable.parts) > 1 else ""
        triples = zip(module.graph.inputs, module.in_types, module.in_shardings, strict=True)
        rows += [
            (value.name, str(global_type), f"{sharding}{mesh}", str(value.type))
            for value, global_type, sharding in triples
        ]
    columns = ("input", "global type", "sharding", "local type")
    return Table("Inputs", columns, rows, columns)


def pictures(executable: Compiled) -> list[dict[str, Any]]:
    """Return pictures of the tiles of inputs and outputs. Values of equal type and sharding share a picture."""
    pictures_by_key: dict[tuple[str, str, str], dict[str, Any]] = {}
    for part in executable.parts:
        module = part.fused
        boundary_values = [*zip(module.graph.inputs, module.in_types, module.in_shardings, strict=True)]
        boundary_values += [*zip(module.graph.outputs, module.out_types, module.out_shardings, strict=True)]
        for value, global_type, sharding in boundary_values:
            key = (part.mesh.name, str(global_type), str(sharding))
            if key not in pictures_by_key and len(pictures_by_key) < MOST_PICTURES:
                picture = show(sharding, spec(str(global_type)).sizes, part.mesh)
                pictures_by_key[key] = {
                    "title": picture.title,
                    "names": [],
                    "grids": [grid_record(grid) for grid in picture.grids[:4]],
                }
            if key in pictures_by_key:
                pictures_by_key[key]["names"].append(value.name)
    return list(pictures_by_key.values())


def grid_record(grid: Grid) -> dict[str, Any]:
    """Return a grid as a dict, in which each cell has the text of its devices, and the rank of the first device."""
    cells = [row[:MOST_CELLS] for row in grid.cells[:MOST_CELLS]]
    texts: Sequence[Any] = [[[devices_text(cell), cell[0] if cell else -1] for cell in row] for row in cells]
    return asdict(grid) | {"rows": grid.rows[:MOST_CELLS], "columns": grid.columns[:MOST_CELLS], "cells": texts}
