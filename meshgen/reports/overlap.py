"""Report how exposed collectives are handled: whether they are split into chunks that overlap with compute, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from meshgen.codegen.planner import Planner
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.pipeline import context_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, seconds_text, table_of
from meshgen.sharding.chunks.chunks import in_chunks


def overlap_of(executable: Compiled) -> tuple[ChunkDecision, ...]:
    """Return the decisions about splitting into chunks, for a program on one mesh."""
    if "partition" not in executable.stages or "chunks" in executable.options.skip:
        return ()
    module = executable.stages["partition"]
    if (recorded := executable.decisions.get("chunks", {}).get(module.graph)) is not None:
        return recorded
    return in_chunks(module, Planner.of(context_of(executable.options), executable.mesh)).decisions


def overlap_table(executable: Compiled) -> Table | None:
    """Return a table with a row per group of equal collectives, or None if no collective is exposed."""
    rows = [
        (
            decision.what,
            seconds_text(decision.exposed_seconds),
            "in chunks" if decision.is_applied else "whole",
            decision.text,
        )
        for decision in executable.overlap
    ]
    if not rows:
        return None
    columns = ("collectives", "exposed when whole", "now", "because")
    return table_of("Collectives that nothing hides, and chunks of them", columns, rows, left=("now", "because"))


def overlap_records(executable: Compiled) -> list[dict[str, Any]]:
    """Return the decisions about splitting into chunks as JSON-serializable dicts."""
    return [asdict(decision) for decision in executable.overlap]
