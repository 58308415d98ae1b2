"""`cp.async`: copies from global to shared memory that are over when their thread has waited for them.

A copy is done as late as possible: when it is waited for. Until then no thread may touch its destination. Matrix units may read
copied data without a proxy fence, as Triton's and CUTLASS's pipelines do, though the PTX ISA requires one.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.asynchronous import Copy
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.program import Immediate, Instruction
from meshgen.emulator.table import address_reader, reader
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_U32 = np.dtype(np.uint32)
_HINTS = {"ca", "cg", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint"}


def _begin(wave: Wave, copy: Copy) -> None:
    wave.memory.places(copy.sources[copy.real > 0], copy.size, copy.size, write=False)
    wave.shared.begin_copy(copy.places, copy.size, copy.threads % wave.threads // WARP)
    wave.under_way.copies.append(copy)


def _wait(wave: Wave, threads: Array, left: int) -> None:
    """Threads [all threads] wait until no more than `left` of their groups are under way."""
    state = wave.under_way
    rest: list[Copy] = []
    for copy in state.copies:
        over = threads[copy.threads] & (copy.group < state.copy_groups[copy.threads] - left)
        if over.all():
            _arrive(wave, copy)
            wave.shared.copying -= 1
        elif not over.any():
            rest.append(copy)
        else:
            _arrive(wave, copy.of(over))
            rest.append(copy.of(~over))
    state.copies = rest


def _arrive(wave: Wave, copy: Copy) -> None:
    """Make a copy."""
    values = np.zeros(len(copy.places), WORDS[copy.size])
    some = copy.real > 0
    blocks = wave.numbers[copy.threads[some] // wave.threads]
    values[some] = wave.memory.load(copy.sources[some], copy.size, blocks)
    if (partial := some & (copy.real < copy.size)).any():
        octets = values.view(np.uint8).reshape(-1, copy.size)
        octets[partial] *= np.arange(copy.size) < copy.real[partial][:, None]
    wave.shared.end_copy(copy.places, values, copy.threads % wave.threads // WARP, generic=False)


def copy_async(instruction: Instruction) -> Action:
    """`cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;`"""
    found = set(instruction.modifiers[1:])
    if not found <= _HINTS | {"shared", "shared::cta", "global"} or "global" not in found:
        raise unknown(instruction)
    size = instruction.operands[2]
    if not isinstance(size, Immediate) or size.bits not in (4, 8, 16):
        raise unknown(instruction)
    target, source = (address_reader(each, instruction) for each in instruction.operands[:2])
    given = [each for each in instruction.operands[3:] if getattr(each, "width", 4) != 8]
    many = reader(given[0], _U32, instruction) if given else None

    def run(wave: Wave, mask: Mask) -> None:
        threads = np.flatnonzero(wave.lanes(mask))
        if not threads.size:
            return

        def of_threads(value: Array) -> Array:
            return wave.full(value).ravel()[threads]

        places = wave.shared.places(of_threads(target(wave)), threads // wave.threads, size.bits)
        real = np.full(len(threads), size.bits) if many is None else np.minimum(of_threads(many(wave)), size.bits)
        group = wave.under_way.copy_groups[threads]
        _begin(wave, Copy(threads, places, of_threads(source(wave)), size.bits, real.astype(np.int64), group))

    return run


def commit_group(wave: Wave, mask: Mask) -> None:
    """`cp.async.commit_group`"""
    wave.under_way.copy_groups[wave.lanes(mask).ravel()] += 1


def wait_group(instruction: Instruction) -> Action:
    """`cp.async.wait_group N`, `cp.async.wait_all`"""
    if instruction.modifiers[1] == "wait_all":
        return _wait_all
    left = instruction.operands[0]
    if not isinstance(left, Immediate):
        raise unknown(instruction)
    return lambda wave, mask: _wait(wave, wave.lanes(mask).ravel(), left.bits)


def _wait_all(wave: Wave, mask: Mask) -> None:
    commit_group(wave, mask)
    _wait(wave, wave.lanes(mask).ravel(), 0)
