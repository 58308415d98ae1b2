"""`fence`, and the instructions whose name begins with `cp.async`.

Writes are visible to all threads at once in the emulator, so only the proxy fence for asynchronous units has an effect
here.
"""

from __future__ import annotations

from meshgen.emulator.cp_async import commit_group, copy_async, wait_group
from meshgen.emulator.decoder_table import nothing, opcode
from meshgen.emulator.program import Instruction
from meshgen.emulator.tma_copies import bulk
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
    """Record that asynchronous units see the earlier writes of the threads in `mask` (`fence.proxy.async`)."""
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
