"""The decisions of a compiled program, saved as a member of the module file, so that `explain` need not compile again.

The member contains the program at every stage, its schedule, and the decisions about propagation and chunks, as
compiler records (`record_json.py`). Source locations contain base names of files, as in report texts, so that a
module does not depend on the directory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from meshgen.compiled.record_json import UnsavableError, to_document
from meshgen.ir.graph import Graph, Module
from meshgen.pipeline import Options
from meshgen.reports.interface import Compiled
from meshgen.runtime.module_file.resources import Resources
from meshgen.runtime.module_file.stage_texts import packed
from meshgen.runtime.plan import Schedule

MEMBER = "decisions.json.gz"
_SAVED = ("propagate", "chunks")  # The stages whose decisions are saved.


@dataclass(frozen=True)
class SavedProgram:
    """The content of the member: a program on one or several meshes. `parts` has (stages, schedule) of each mesh."""

    stages: dict[str, Module]
    parts: tuple[tuple[dict[str, Module], Schedule], ...]
    options: Options
    decisions: dict[str, list[tuple[Graph, Any]]]


def saved_member(executable: Compiled, resources: Resources) -> dict[str, bytes]:
    """Return the module member with the decisions as {name: content}. Returns {} if an object cannot be saved.

    Without the member, reports compile the program again.
    """
    decisions = executable.parts[0].decisions  # The decisions of all parts are the same object.
    decided = {stage: list(decisions.get(stage, {}).items()) for stage in _SAVED}
    parts = tuple((dict(part.stages), part.plan) for part in executable.parts)
    program = SavedProgram(dict(executable.stages), parts, replace(executable.options, tuning=None), decided)
    try:
        document = to_document(program, resources)
    except UnsavableError:
        return {}
    return {MEMBER: packed(json.dumps(document, separators=(",", ":")))}
