"""`fence`, and the instructions that begin with `cp.async`.

All threads see each other's writes at once here, so only the fence between threads and asynchronous units does something.
"""

from __future__ import annotations

from meshgen.emulator.bulk_copies import bulk
from meshgen.emulator.copies import commit_group, copy_async, wait_group
from meshgen.emulator.program import Instruction
from meshgen.emulator.table import nothing, opcode
from meshgen.emulator.types import unknown
from meshgen.emulator.wave import Action, Mask, Wave

_SCOPES = {
    "acq_rel",
    "sc",
    "acquire",
    "release",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "mbarrier_init",
    "sync_restrict::shared::cta",
}


@opcode("fence")
def _fence(instruction: Instruction) -> Action:
    match instruction.modifiers:
        case ("proxy", "async", *_):
            return _fence_async
        case ("proxy", *_):
            return nothing
        case words if set(words) <= _SCOPES:
            return nothing
        case _:
            raise unknown(instruction)


def _fence_async(wave: Wave, mask: Mask) -> None:
    """Writes of the warps become visible to asynchronous units."""
    if wave.shared.races:
        wave.shared.races.fence(wave.warps_of(wave.lanes(mask)))


@opcode("cp")
def _cp(instruction: Instruction) -> Action:
    match instruction.modifiers:
        case ("async", "commit_group"):
            return commit_group
        case ("async", "wait_group" | "wait_all"):
            return wait_group(instruction)
        case ("async", "bulk", *_) | ("reduce", "async", "bulk", *_):
            return bulk(instruction)
        case ("async", "ca" | "cg", *_):
            return copy_async(instruction)
        case _:
            raise unknown(instruction)
