"""Restoration of a compiled program from a loaded module, from the decisions saved in the module (`saved_decisions.py`).

Reports on a module use the restored program, so they need not compile the program again.
"""

from __future__ import annotations

from pathlib import Path

from meshgen.compilation import Decisions
from meshgen.compiled.executable import Executable
from meshgen.compiled.multi_mesh import PartsExecutable
from meshgen.compiled.record_json import OtherVersionError, from_document
from meshgen.compiled.saved_decisions import MEMBER, SavedProgram
from meshgen.pipeline import Timing
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.json_values import read_json
from meshgen.runtime.module_file.resources import contents_by_name
from meshgen.runtime.module_file.stage_texts import unpacked
from meshgen.runtime.validation.load_checks import reading
from meshgen.runtime.validation.multi_mesh_checker import check_parts


def saved_program(module: LoadedModule) -> Executable | None:
    """Return the compiled program that is saved in a module file.

    Returns None if the module has no saved decisions, or if they are from another version of meshgen or for other mesh
    sizes. Raises ModuleError MG0502 for a malformed member.
    """
    members = module.members
    if MEMBER not in members:
        return None
    path = Path(members.path)
    try:
        with reading(path):
            document = read_json(unpacked(members, MEMBER).encode())
            contents = contents_by_name(members)
            program = from_document(document, contents.__getitem__)
            if not isinstance(program, SavedProgram):
                raise ValueError(f"'{MEMBER}' is not a program")
    except OtherVersionError:
        return None
    executable = _executable(program)
    return executable if [part.mesh for part in executable.parts] == [*module.meshes] else None


def _executable(program: SavedProgram) -> Executable:
    decisions = Decisions({stage: dict(decided) for stage, decided in program.decisions.items()})
    timing = Timing()
    parts = [Executable(stages, plan, program.options, timing, decisions=decisions) for stages, plan in program.parts]
    if len(parts) == 1:
        return parts[0]
    timeline = check_parts([part.plan for part in parts], [part.mesh for part in parts])
    return PartsExecutable(program.stages, parts, timeline, program.options, timing)
