"""Every decision of a compilation as one document: what `compile --dump` writes beside the stages."""

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
    """The sharding of each value and the rules that chose it, the reason of each collective, hints that lost, and the cost."""
    parts = [_part_decisions(part) | {"mesh": part.mesh.name} for part in executable.parts]
    found = executable.record() | formula_record(executable) | {"gathers": gather_records(executable)}
    found |= {"overlap": overlap_records(executable), "fusion": fusion_records(executable)}
    found |= {"explanations": explanations(executable), "work": work_records(executable)}
    found.pop("seconds", None)  # the same bytes every time
    return found | (parts[0] if len(parts) == 1 else {"meshes": parts}) | {"mesh": found["mesh"]}


def _part_decisions(part: Compiled) -> dict[str, Any]:
    """What was decided for the program of one mesh."""
    record = annotation_record(part)
    return {
        "explained": [explained(each, weighed=False) for each in served(part)],
        "tree": [root.record() for root in comms_tree(part)],
        "hints_that_lost": record["hints_that_lost"],
        "not_as_required": record["not_as_required"],
    }
