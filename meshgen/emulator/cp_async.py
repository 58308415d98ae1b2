"""`cp.async`: asynchronous copies from global to shared memory.

The emulator performs a copy as late as possible: when its thread waits for it. Until then, no thread may access the
destination. Matrix units may read copied data without a proxy fence, although the PTX ISA requires one: the pipelines
of Triton and CUTLASS do the same.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.asynchronous import Copy
from meshgen.emulator.decoder_table import address_reader, reader
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.program import Immediate, Instruction
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_U32 = np.dtype(np.uint32)
_HINTS = {"ca", "cg", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint"}


def _begin(wave: Wave, copy: Copy) -> None:
    wave.memory.positions(copy.sources[copy.real > 0], copy.size, copy.size, write=False)
    wave.shared.begin_copy(copy.positions, copy.size, copy.threads % wave.threads // WARP)
    wave.pending_operations.copies.append(copy)


def _wait(wave: Wave, threads: Array, left: int) -> None:
    """Complete the oldest copies, until each thread of the mask `threads` has at most `left` pending commit groups."""
    state = wave.pending_operations
    pending: list[Copy] = []
    for copy in state.copies:
        completed = threads[copy.threads] & (copy.group < state.copy_groups[copy.threads] - left)
        if completed.all():
            _complete(wave, copy)
            wave.shared.copying -= 1
        elif not completed.any():
            pending.append(copy)
        else:
            _complete(wave, copy.of(completed))
            pending.append(copy.of(~completed))
    state.copies = pending


def _complete(wave: Wave, copy: Copy) -> None:
    """Perform a copy: write the bytes to shared memory."""
    values = np.zeros(len(copy.positions), WORDS[copy.size])
    has_data = copy.real > 0
    blocks = wave.numbers[copy.threads[has_data] // wave.threads]
    values[has_data] = wave.memory.load(copy.sources[has_data], copy.size, blocks)
    if (is_partial := has_data & (copy.real < copy.size)).any():
        octets = values.view(np.uint8).reshape(-1, copy.size)
        octets[is_partial] *= np.arange(copy.size) < copy.real[is_partial][:, None]
    wave.shared.end_copy(copy.positions, values, copy.threads % wave.threads // WARP, generic=False)


def copy_async(instruction: Instruction) -> Action:
    """Decode a copy such as `cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;`."""
    modifiers = set(instruction.modifiers[1:])
    if not modifiers <= _HINTS | {"shared", "shared::cta", "global"} or "global" not in modifiers:
        raise unknown(instruction)
    size = instruction.operands[2]
    if not isinstance(size, Immediate) or size.bits not in (4, 8, 16):
        raise unknown(instruction)
    target, source = (address_reader(operand, instruction) for operand in instruction.operands[:2])
    source_sizes = [operand for operand in instruction.operands[3:] if getattr(operand, "width", 4) != 8]
    source_size = reader(source_sizes[0], _U32, instruction) if source_sizes else None

    def run(wave: Wave, mask: Mask) -> None:
        threads = np.flatnonzero(wave.lanes(mask))
        if not threads.size:
            return

        def of_threads(value: Array) -> Array:
            return wave.full(value).ravel()[threads]

        positions = wave.shared.positions(of_threads(target(wave)), threads // wave.threads, size.bits)
        copied_bytes = (
            np.full(len(threads), size.bits)
            if source_size is None
            else np.minimum(of_threads(source_size(wave)), size.bits)
        )
        group = wave.pending_operations.copy_groups[threads]
        _begin(
            wave, Copy(threads, positions, of_threads(source(wave)), size.bits, copied_bytes.astype(np.int64), group)
        )

    return run


def commit_group(wave: Wave, mask: Mask) -> None:
    """Commit the uncommitted copies of each thread as a group (`cp.async.commit_group`)."""
    wave.pending_operations.copy_groups[wave.lanes(mask).ravel()] += 1


def wait_group(instruction: Instruction) -> Action:
    """Decode `cp.async.wait_group N` and `cp.async.wait_all`."""
    if instruction.modifiers[1] == "wait_all":
        return _wait_all
    left = instruction.operands[0]
    if not isinstance(left, Immediate):
        raise unknown(instruction)
    return lambda wave, mask: _wait(wave, wave.lanes(mask).ravel(), left.bits)


def _wait_all(wave: Wave, mask: Mask) -> None:
    commit_group(wave, mask)
    _wait(wave, wave.lanes(mask).ravel(), 0)
