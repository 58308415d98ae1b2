"""The decisions of a compiled program in its module: `explain` of the module reads them, and plans nothing again.

The member has the program at every stage, its schedule, and the decisions of propagation and about chunks, as records of the compiler
(`saved_objects.py`). Their places have base names of files, as the texts of reports have, so that a module does not depend on the directory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from meshgen.compiled.saved_objects import UnsavableError, to_document
from meshgen.ir.graph import Graph, Module
from meshgen.pipeline import Options
from meshgen.reports.interface import Compiled
from meshgen.runtime.module_file.resources import Resources
from meshgen.runtime.module_file.stage_texts import packed
from meshgen.runtime.plan import Schedule

MEMBER = "decisions.json.gz"
_SAVED = ("propagate", "chunks")  # stages whose decisions are saved


@dataclass(frozen=True)
class SavedProgram:
    """What a module keeps of its program, on one mesh or several: `parts` are the stages and the schedule of each mesh."""

    stages: dict[str, Module]
    parts: tuple[tuple[dict[str, Module], Schedule], ...]
    options: Options
    decisions: dict[str, list[tuple[Graph, Any]]]


def saved_member(executable: Compiled, resources: Resources) -> dict[str, bytes]:
    """Return the member with the decisions; none where an object of the program cannot be saved, which is then planned again."""
    decisions = executable.parts[0].decisions  # all parts share them
    decided = {stage: list(decisions.get(stage, {}).items()) for stage in _SAVED}
    parts = tuple((dict(part.stages), part.plan) for part in executable.parts)
    program = SavedProgram(dict(executable.stages), parts, replace(executable.options, tuning=None), decided)
    try:
        document = to_document(program, resources)
    except UnsavableError:
        return {}
    return {MEMBER: packed(json.dumps(document, separators=(",", ":")))}
