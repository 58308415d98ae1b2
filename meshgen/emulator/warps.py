"""Warp-wide operations: shuffles, votes, matching, election; and hints without effect here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.arithmetic import words
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Instruction, Negated, Pair, Sink
from meshgen.emulator.table import nothing, opcode, reader, readers, writer
from meshgen.emulator.types import TYPES, Array, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_BOOL, _U32 = np.dtype(np.bool_), np.dtype(np.uint32)
_LANE = np.arange(WARP, dtype=np.int64)
_LOW = np.uint32(31)


def members(wave: Wave, mask: Mask, given: Array) -> Array | None:
    """Threads [blocks, warps, 32] that take part; None for all. Raises DeviceFault "barrier" where one is missing."""
    if wave.alive is None and mask is None and given.size == 1 and int(given.flat[0]) == 0xFFFFFFFF:
        return None
    here = wave.lanes_by_warp(mask)
    named = (wave.by_warp(given) >> _LANE.astype(np.uint32) & np.uint32(1)).astype(np.bool_)
    live = wave.lanes_by_warp(None)
    if (here.any(2, keepdims=True) & named & live & ~here).any():
        raise DeviceFault("barrier", "threads named in the member mask do not take part")
    if (here & ~named).any():
        raise DeviceFault("barrier", "a thread takes part that is not in the member mask")
    return here


def _everyone(wave: Wave, here: Array | None) -> Array:
    return wave.lanes_by_warp(None) if here is None else here


@opcode("shfl")
def _shfl(instruction: Instruction) -> Action:
    """The value of another thread of the warp; of one beyond the clamp one's own."""
    sync, mode, kind = instruction.modifiers
    if sync != "sync" or kind != "b32" or mode not in ("up", "down", "bfly", "idx"):
        raise unknown(instruction)
    target = instruction.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    value, by, clamp, who = readers(instruction, _U32)
    put, put_valid = writer(first, _U32, instruction), writer(second, _BOOL, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = members(wave, mask, who(wave))
        distance, limits = (wave.by_warp(read(wave)).astype(np.int64) for read in (by, clamp))
        source, valid = _source(mode, distance & 31, limits)
        if here is not None and (here & ~_taken(here, source)).any():
            raise DeviceFault("barrier", "a thread reads the value of one that does not take part")
        put(wave, wave.from_warps(_taken(wave.by_warp(value(wave)), source)), mask)
        put_valid(wave, wave.from_warps(valid), mask)

    return run


def _taken(value: Array, source: Array) -> Array:
    """Of each thread the value of another of its warp."""
    if value.shape[2] == 1:
        return value
    if source.shape[:2] == (1, 1):
        return value[:, :, source[0, 0]]
    shape = np.broadcast_shapes(value.shape, source.shape)
    return np.take_along_axis(np.broadcast_to(value, shape), np.broadcast_to(source, shape), 2)


def _source(mode: str, by: Array, limits: Array) -> tuple[Array, Array]:
    """The thread whose value each gets, and whether it is within the clamp. Source: PTX ISA, `shfl.sync`, pseudocode."""
    segment, clamp = limits >> 8 & 31, limits & 31
    highest = (_LANE & segment) | (clamp & ~segment)
    if mode == "up":
        source = _LANE - by
        valid = source >= highest
    else:
        lowest = _LANE & segment
        source = {"down": _LANE + by, "bfly": _LANE ^ by, "idx": lowest | (by & ~segment)}[mode]
        valid = source <= highest
    return np.where(valid, source, _LANE), valid


VOTES: dict[str, Callable[[Array, Array], Array]] = {
    "any": lambda value, here: np.any(value & here, 2, keepdims=True),
    "all": lambda value, here: np.all(value | ~here, 2, keepdims=True),
    "uni": lambda value, here: np.all(value | ~here, 2, keepdims=True) | ~np.any(value & here, 2, keepdims=True),
    "ballot": lambda value, here: _ballot(value & here),
}


def _ballot(value: Array) -> Array:
    bits = value.astype(np.uint32) << _LANE.astype(np.uint32)
    return bits.sum(2, dtype=np.uint32, keepdims=True)


@opcode("vote")
def _vote(instruction: Instruction) -> Action:
    sync, mode, kind = instruction.modifiers
    if sync != "sync" or mode not in VOTES or kind not in ("pred", "b32"):
        raise unknown(instruction)
    source = instruction.operands[1]
    value = reader(source.register if isinstance(source, Negated) else source, _BOOL, instruction)
    who = reader(instruction.operands[2], _U32, instruction)
    put = writer(instruction.operands[0], TYPES[kind], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = _everyone(wave, members(wave, mask, who(wave)))
        said = wave.by_warp(value(wave))
        found = VOTES[mode](~said if isinstance(source, Negated) else said, here)
        put(wave, wave.from_warps(found), mask)

    return run


REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


_LEAST, _MOST = np.int32(-(2**31)), np.int32(2**31 - 1)  # no float is ordered there: as bits these are NaN
_NAN = np.uint32(0x7FFFFFFF)  # that instructions give


@opcode("redux")
def _redux(instruction: Instruction) -> Action:
    """One number of all members of a warp."""
    if instruction.modifiers[-1:] == ("f32",):
        return _redux_of_floats(instruction)
    sync, operation, name = instruction.modifiers
    if sync != "sync" or operation not in REDUCTIONS or name not in ("u32", "s32", "b32"):
        raise unknown(instruction)
    kind, ufunc = TYPES[name], REDUCTIONS[operation]
    value, who = reader(instruction.operands[1], kind, instruction), reader(instruction.operands[2], _U32, instruction)
    put = writer(instruction.operands[0], kind, instruction)
    info = np.iinfo(kind)
    neutral = {"min": info.max, "max": info.min, "and": -1 if kind.kind == "i" else info.max}.get(operation, 0)

    def run(wave: Wave, mask: Mask) -> None:
        here = _everyone(wave, members(wave, mask, who(wave)))
        given = np.where(here, wave.by_warp(value(wave)), kind.type(neutral))
        put(wave, wave.from_warps(ufunc.reduce(given, 2, dtype=kind, keepdims=True)), mask)

    return run


def _redux_of_floats(instruction: Instruction) -> Action:
    """The least or greatest of f32; -0 is below 0, and a NaN counts only with `.NaN`, or where there is nothing else."""
    sync, operation, *flags, _ = instruction.modifiers
    if sync != "sync" or operation not in ("min", "max") or not {*flags} <= {"abs", "NaN"}:
        raise unknown(instruction)
    value, who = reader(instruction.operands[1], _U32, instruction), reader(instruction.operands[2], _U32, instruction)
    put = writer(instruction.operands[0], _U32, instruction)
    ufunc, neutral = (np.minimum, _MOST) if operation == "min" else (np.maximum, _LEAST)

    def run(wave: Wave, mask: Mask) -> None:
        here = _everyone(wave, members(wave, mask, who(wave)))
        bits = wave.by_warp(value(wave)) & (0x7FFFFFFF if "abs" in flags else 0xFFFFFFFF)
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        signed = bits.view(np.int32)
        ordered = np.where(here & ~is_nan, signed ^ (signed >> 31 & 0x7FFFFFFF), neutral)
        found = ufunc.reduce(ordered, 2, dtype=np.int32, keepdims=True)
        chosen = np.where(found == neutral, _NAN, (found ^ (found >> 31 & 0x7FFFFFFF)).view(np.uint32))
        some = (here & is_nan).any(2, keepdims=True) & ("NaN" in flags)
        put(wave, wave.from_warps(np.where(some, _NAN, chosen).astype(np.uint32)), mask)

    return run


@opcode("match")
def _match(instruction: Instruction) -> Action:
    """Who in the warp has the same value."""
    if instruction.modifiers[:2] != ("any", "sync"):
        raise unknown(instruction)
    kind = TYPES[instruction.modifiers[2]]
    value, who = reader(instruction.operands[1], kind, instruction), reader(instruction.operands[2], _U32, instruction)
    put = writer(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = _everyone(wave, members(wave, mask, who(wave)))
        given = np.broadcast_to(wave.by_warp(value(wave)), here.shape)
        same = (given[..., :, None] == given[..., None, :]) & here[..., None, :]
        bits = same.astype(np.uint32) << _LANE.astype(np.uint32)
        put(wave, bits.sum(3, dtype=np.uint32).reshape(wave.shape), mask)

    return run


@opcode("elect")
def _elect(instruction: Instruction) -> Action:
    """One thread of the warp, here the first that takes part, has the predicate; all learn its number."""
    words(instruction, "sync", last=0)
    target = instruction.operands[0]
    if not isinstance(target, Pair):
        raise unknown(instruction)
    put, put_is = writer(target.first, _U32, instruction), writer(target.second, _BOOL, instruction)
    who = reader(instruction.operands[1], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = _everyone(wave, members(wave, mask, who(wave)))
        leader = here.argmax(2)[..., None]
        put(wave, wave.from_warps(leader.astype(np.uint32)), mask)
        put_is(wave, wave.from_warps(here & (leader == _LANE)), mask)

    return run


@opcode("activemask")
def _activemask(instruction: Instruction) -> Action:
    put = writer(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        put(wave, wave.from_warps(_ballot(wave.lanes_by_warp(mask))), mask)

    return run


@opcode("bar", "barrier")
def _warp_barrier(instruction: Instruction) -> Action:
    """`bar.warp.sync`: the threads of a warp run in step already, those that are named must be there."""
    if instruction.modifiers != ("warp", "sync"):
        raise unknown(instruction)
    who = reader(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        members(wave, mask, who(wave))

    return run


@opcode("trap", "brkpt")
def _trap(instruction: Instruction) -> Action:
    def run(wave: Wave, mask: Mask) -> None:
        raise DeviceFault("opcode", "the kernel traps")

    return run


# Registers are not scarce here, threads see each other's writes at once, and time does not pass.
@opcode("setmaxnreg", "membar", "griddepcontrol", "nanosleep", "pmevent")
def _no_effect(instruction: Instruction) -> Action:
    return nothing
