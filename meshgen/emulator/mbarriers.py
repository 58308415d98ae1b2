"""`mbarrier`: barriers in shared memory whose phases end when enough have arrived and enough bytes have been copied.

Source: PTX ISA 8.7, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshgen.emulator.addresses import WIDEST
from meshgen.emulator.asynchronous import BulkCopy, Mbarrier, no_mbarriers
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.program import Instruction, Sink
from meshgen.emulator.table import Reader, address_reader, opcode, reader, writer
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

NBYTES = 8  # of a barrier (PTX ISA 8.7, "mbarrier")
_U32, _BOOL = np.dtype(np.uint32), np.dtype(np.bool_)
_WORDS = {"shared", "shared::cta", "b64", "release", "acquire", "relaxed", "cta"}


@opcode("mbarrier")
def _mbarrier(instruction: Instruction) -> Action:
    operation, *rest = instruction.modifiers
    known = {"parity", "expect_tx"} | _WORDS
    if not set(rest) <= known or "b64" not in rest:
        raise unknown(instruction)
    match operation:
        case "init":
            return _init(instruction)
        case "inval":
            return _inval(instruction)
        case "arrive" | "expect_tx":
            return _arrive(instruction)
        case "try_wait" | "test_wait" if "parity" in rest:
            return _wait(instruction)
        case _:
            raise unknown(instruction)


def _by_address(wave: Wave, addresses: Array, lanes: Array) -> Iterator[tuple[int, Array]]:
    """The addresses that threads name, and who names each. Raises DeviceFault for an address that cannot hold an mbarrier."""
    whole = wave.full(addresses)
    for each in np.unique(whole[lanes]):
        wave.shared.places(np.array([each], np.uint64), np.zeros(1, np.int64), NBYTES)
        yield int(each), lanes & (whole == each)


def mbarrier_at(wave: Wave, address: int, lanes: Array) -> Mbarrier:
    """The mbarriers of all blocks at an address. Raises DeviceFault "barrier" where a thread's block has none there."""
    found = wave.under_way.mbarriers.get(address)
    if found is None or (lanes.any(1) & (found.expected == 0)).any():
        raise DeviceFault("barrier", f"{address:#x} is not the address of an mbarrier")
    return found


def _init(instruction: Instruction) -> Action:
    address, count = (
        address_reader(instruction.operands[0], instruction),
        reader(instruction.operands[1], _U32, instruction),
    )

    def run(wave: Wave, mask: Mask) -> None:
        for place, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            number = np.where(lanes, wave.full(count(wave)), 0).max(1).astype(np.int64)
            fresh = no_mbarriers(wave.blocks, wave.warps)
            state = wave.under_way.mbarriers.setdefault(place, fresh)
            here = lanes.any(1)
            state.expected[here] = state.missing[here] = number[here]
            state.bytes[here] = state.phase[here] = 0
            state.arriving[here] = state.known[here] = 0

    return run


def _inval(instruction: Instruction) -> Action:
    address = address_reader(instruction.operands[0], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        for place, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            mbarrier_at(wave, place, lanes).expected[lanes.any(1)] = 0

    return run


def _arrive(instruction: Instruction) -> Action:
    """`mbarrier.arrive _, [a], 2`, `mbarrier.arrive.expect_tx _, [a], bytes`, `mbarrier.expect_tx [a], bytes`."""
    operands = list(instruction.operands)
    arrives = instruction.modifiers[0] == "arrive"
    if arrives and not isinstance(operands.pop(0), Sink):
        raise unknown(instruction)  # a phase is named by its parity
    expects = "expect_tx" in instruction.modifiers
    address = address_reader(operands[0], instruction)
    number: Reader | None = reader(operands[1], _U32, instruction) if len(operands) > 1 else None

    def run(wave: Wave, mask: Mask) -> None:
        for place, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            state = mbarrier_at(wave, place, lanes)
            given = np.where(lanes, 1 if number is None else wave.full(number(wave)), 0).sum(1).astype(np.int64)
            if expects:
                state.bytes += given
            if arrives:
                _count_arrivals(wave, state, lanes, lanes.sum(1) if expects else given)

    return run


def _count_arrivals(wave: Wave, state: Mbarrier, lanes: Array, arrivals: Array) -> None:
    """Threads arrive."""
    state.missing -= arrivals
    if (state.missing < 0).any():
        raise DeviceFault("barrier", "more threads arrive at an mbarrier than its phase expects")
    if races := wave.shared.races:
        for warp in range(wave.warps):
            here = lanes[:, warp * WARP : (warp + 1) * WARP].any(1)
            state.arriving[here] = np.maximum(state.arriving[here], races.clocks[here, warp])
        races.learn(wave.warps_of(lanes), np.zeros((wave.blocks, wave.warps), np.int32))
    complete(state)


def complete(state: Mbarrier) -> None:
    """End the phases for which nothing is missing any more."""
    over = (state.expected > 0) & (state.missing == 0) & (state.bytes == 0)
    state.phase[over] += 1
    state.missing[over] = state.expected[over]
    state.known[over], state.arriving[over] = state.arriving[over], 0


def _wait(instruction: Instruction) -> Action:
    """Whether the phase of a parity is over; copies that it waits for are made now, as late as may be."""
    put = writer(instruction.operands[0], _BOOL, instruction)
    address = address_reader(instruction.operands[1], instruction)
    parity = reader(instruction.operands[2], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        result = np.zeros(wave.shape, np.bool_)
        for place, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            state = mbarrier_at(wave, place, lanes)
            for copy in state.copies:
                _make(wave, copy, state)
            state.copies = []
            complete(state)
            over = lanes & ((state.phase[:, None] & 1) != (wave.full(parity(wave)) & 1))
            result |= over
            if wave.shared.races and over.any():
                wave.shared.races.learn(wave.warps_of(over), state.known)
        put(wave, result, mask)

    return run


def _make(wave: Wave, copy: BulkCopy, state: Mbarrier) -> None:
    """A copy to shared memory is made, and its mbarriers are notified."""
    word = WORDS[copy.itemsize]
    values = np.full(copy.inside.shape, copy.fill, word)
    blocks = np.broadcast_to(wave.numbers[copy.blocks][:, None], copy.inside.shape)[copy.inside]
    values[copy.inside] = wave.memory.load(copy.addresses[copy.inside], copy.itemsize, blocks)
    wave.shared.end_copy(copy.places, values.view(WORDS[WIDEST]), copy.warps[:, None], generic=False)
    wave.shared.copying -= 1
    np.subtract.at(state.bytes, copy.blocks, copy.nbytes)
    if races := wave.shared.races:
        at = copy.blocks, copy.warps
        state.arriving[at] = np.maximum(state.arriving[at], races.clocks[copy.blocks, copy.warps, copy.warps])
