"""`mbarrier`: barriers in shared memory whose phases complete after a number of arrivals and of copied bytes.

Source: PTX ISA 8.7, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshgen.emulator.addresses import WIDEST
from meshgen.emulator.asynchronous import BulkCopy, Mbarrier, uninitialized_mbarriers
from meshgen.emulator.decoder_table import Reader, address_reader, opcode, reader, writer
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.program import Instruction, Sink
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

NBYTES = 8  # size of an mbarrier in bytes (PTX ISA 8.7, "mbarrier")
_U32, _BOOL = np.dtype(np.uint32), np.dtype(np.bool_)
_WORDS = {"shared", "shared::cta", "b64", "release", "acquire", "relaxed", "cta"}


@opcode("mbarrier")
def _mbarrier(instruction: Instruction) -> Action:
    operation, *modifiers = instruction.modifiers
    supported = {"parity", "expect_tx"} | _WORDS
    if not set(modifiers) <= supported or "b64" not in modifiers:
        raise unknown(instruction)
    match operation:
        case "init":
            return _init(instruction)
        case "inval":
            return _inval(instruction)
        case "arrive" | "expect_tx":
            return _arrive(instruction)
        case "try_wait" | "test_wait" if "parity" in modifiers:
            return _wait(instruction)
        case _:
            raise unknown(instruction)


def _by_address(wave: Wave, addresses: Array, lanes: Array) -> Iterator[tuple[int, Array]]:
    """Yield each address in `addresses` with the mask of the threads that use it.

    Raises DeviceFault for an address that cannot hold an mbarrier.
    """
    by_thread = wave.full(addresses)
    for address in np.unique(by_thread[lanes]):
        wave.shared.positions(np.array([address], np.uint64), np.zeros(1, np.int64), NBYTES)
        yield int(address), lanes & (by_thread == address)


def mbarrier_at(wave: Wave, address: int, lanes: Array) -> Mbarrier:
    """Return the mbarriers of all blocks at `address`.

    Raises:
        DeviceFault: "barrier", the block of a thread in `lanes` has no mbarrier there.
    """
    state = wave.pending_operations.mbarriers.get(address)
    if state is None or (lanes.any(1) & (state.expected == 0)).any():
        raise DeviceFault("barrier", f"{address:#x} is not the address of an mbarrier")
    return state


def _init(instruction: Instruction) -> Action:
    address, count = (
        address_reader(instruction.operands[0], instruction),
        reader(instruction.operands[1], _U32, instruction),
    )

    def run(wave: Wave, mask: Mask) -> None:
        for position, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            arrivals = np.where(lanes, wave.full(count(wave)), 0).max(1).astype(np.int64)
            uninitialized = uninitialized_mbarriers(wave.blocks, wave.warps)
            state = wave.pending_operations.mbarriers.setdefault(position, uninitialized)
            selected = lanes.any(1)
            state.expected[selected] = state.missing[selected] = arrivals[selected]
            state.bytes[selected] = state.phase[selected] = 0
            state.arriving[selected] = state.known[selected] = 0

    return run


def _inval(instruction: Instruction) -> Action:
    address = address_reader(instruction.operands[0], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        for position, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            mbarrier_at(wave, position, lanes).expected[lanes.any(1)] = 0

    return run


def _arrive(instruction: Instruction) -> Action:
    """Decode an arrival: `mbarrier.arrive _, [a], 2`, `mbarrier.arrive.expect_tx _, [a], bytes` or `mbarrier.expect_tx
    [a], bytes`.
    """
    operands = list(instruction.operands)
    arrives = instruction.modifiers[0] == "arrive"
    if arrives and not isinstance(operands.pop(0), Sink):
        raise unknown(instruction)  # phase tokens are unsupported: a wait identifies a phase by its parity
    expects = "expect_tx" in instruction.modifiers
    address = address_reader(operands[0], instruction)
    amount: Reader | None = reader(operands[1], _U32, instruction) if len(operands) > 1 else None

    def run(wave: Wave, mask: Mask) -> None:
        for position, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            state = mbarrier_at(wave, position, lanes)
            amounts = np.where(lanes, 1 if amount is None else wave.full(amount(wave)), 0).sum(1).astype(np.int64)
            if expects:
                state.bytes += amounts
            if arrives:
                _count_arrivals(wave, state, lanes, lanes.sum(1) if expects else amounts)

    return run


def _count_arrivals(wave: Wave, state: Mbarrier, lanes: Array, arrivals: Array) -> None:
    """Record the arrivals of the threads `lanes`, and complete each phase that misses neither arrivals nor bytes."""
    state.missing -= arrivals
    if (state.missing < 0).any():
        raise DeviceFault("barrier", "more threads arrive at an mbarrier than its phase expects")
    if races := wave.shared.races:
        for warp in range(wave.warps):
            arrived = lanes[:, warp * WARP : (warp + 1) * WARP].any(1)
            state.arriving[arrived] = np.maximum(state.arriving[arrived], races.clocks[arrived, warp])
        races.learn(wave.warps_of(lanes), np.zeros((wave.blocks, wave.warps), np.int32))
    complete(state)


def complete(state: Mbarrier) -> None:
    """Complete the phases that miss neither arrivals nor bytes."""
    is_complete = (state.expected > 0) & (state.missing == 0) & (state.bytes == 0)
    state.phase[is_complete] += 1
    state.missing[is_complete] = state.expected[is_complete]
    state.known[is_complete], state.arriving[is_complete] = state.arriving[is_complete], 0


def _wait(instruction: Instruction) -> Action:
    """Decode a wait: test whether the phase with the given parity is complete.

    Copies that signal the mbarrier are performed now, which is as late as possible.
    """
    put = writer(instruction.operands[0], _BOOL, instruction)
    address = address_reader(instruction.operands[1], instruction)
    parity = reader(instruction.operands[2], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        result = np.zeros(wave.shape, np.bool_)
        for position, lanes in _by_address(wave, address(wave), wave.lanes(mask)):
            state = mbarrier_at(wave, position, lanes)
            for copy in state.copies:
                _perform_copy(wave, copy, state)
            state.copies = []
            complete(state)
            is_complete = lanes & ((state.phase[:, None] & 1) != (wave.full(parity(wave)) & 1))
            result |= is_complete
            if wave.shared.races and is_complete.any():
                wave.shared.races.learn(wave.warps_of(is_complete), state.known)
        put(wave, result, mask)

    return run


def _perform_copy(wave: Wave, copy: BulkCopy, state: Mbarrier) -> None:
    """Perform a copy to shared memory and signal its mbarriers."""
    word = WORDS[copy.itemsize]
    values = np.full(copy.inside.shape, copy.fill, word)
    blocks = np.broadcast_to(wave.numbers[copy.blocks][:, None], copy.inside.shape)[copy.inside]
    values[copy.inside] = wave.memory.load(copy.addresses[copy.inside], copy.itemsize, blocks)
    wave.shared.end_copy(copy.positions, values.view(WORDS[WIDEST]), copy.warps[:, None], generic=False)
    wave.shared.copying -= 1
    np.subtract.at(state.bytes, copy.blocks, copy.nbytes)
    if races := wave.shared.races:
        at = copy.blocks, copy.warps
        state.arriving[at] = np.maximum(state.arriving[at], races.clocks[copy.blocks, copy.warps, copy.warps])
