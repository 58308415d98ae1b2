"""All decisions of a compilation in one document, which `compile --dump` writes beside the program of each stage."""

from __future__ import annotations

from typing import Any

from meshgen.reports.collectives import explained, served
from meshgen.reports.comms_tree import comms_tree
from meshgen.reports.explain import explanations, formula_record, work_records
from meshgen.reports.fusion import fusion_records
from meshgen.reports.gathers import gather_records
from meshgen.reports.ignored import annotation_record
from meshgen.reports.interface import Compiled
from meshgen.reports.overlap import overlap_records


def decisions(executable: Compiled) -> dict[str, Any]:
    """Return a document with each value's sharding and its reason, the reason for each collective, overridden hints,
    and the cost.
    """
    parts = [_part_decisions(part) | {"mesh": part.mesh.name} for part in executable.parts]
    document = executable.record() | formula_record(executable) | {"gathers": gather_records(executable)}
    document |= {"overlap": overlap_records(executable), "fusion": fusion_records(executable)}
    document |= {"explanations": explanations(executable), "work": work_records(executable)}
    document.pop("seconds", None)  # wall time would make the document differ between compilations
    return document | (parts[0] if len(parts) == 1 else {"meshes": parts}) | {"mesh": document["mesh"]}


def _part_decisions(part: Compiled) -> dict[str, Any]:
    """Return the decisions about the program of one mesh, as a JSON-serializable dict."""
    record = annotation_record(part)
    return {
        "explained": [explained(collective, weighed=False) for collective in served(part)],
        "tree": [root.record() for root in comms_tree(part)],
        "hints_that_lost": record["hints_that_lost"],
        "not_as_required": record["not_as_required"],
    }
