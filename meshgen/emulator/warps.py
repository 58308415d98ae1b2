"""Warp-wide operations: shuffles, votes, matching and election, and instructions without an effect in the emulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.arithmetic import words
from meshgen.emulator.decoder_table import nothing, opcode, reader, readers, writer
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Instruction, Negated, Pair, Sink
from meshgen.emulator.types import TYPES, Array, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_BOOL, _U32 = np.dtype(np.bool_), np.dtype(np.uint32)
_LANE = np.arange(WARP, dtype=np.int64)
_LOW = np.uint32(31)


def members(wave: Wave, mask: Mask, member_mask: Array) -> Array | None:
    """Return the threads [blocks, warps, 32] that take part in a warp-wide operation, or None if all do.

    Args:
        member_mask: the member mask of each warp, as given in the instruction.
    Raises:
        DeviceFault: "barrier", the member mask does not match the threads that execute the instruction.
    """
    if wave.alive is None and mask is None and member_mask.size == 1 and int(member_mask.flat[0]) == 0xFFFFFFFF:
        return None
    active = wave.lanes_by_warp(mask)
    named = (wave.by_warp(member_mask) >> _LANE.astype(np.uint32) & np.uint32(1)).astype(np.bool_)
    live = wave.lanes_by_warp(None)
    if (active.any(2, keepdims=True) & named & live & ~active).any():
        raise DeviceFault("barrier", "threads named in the member mask do not take part")
    if (active & ~named).any():
        raise DeviceFault("barrier", "a thread takes part that is not in the member mask")
    return active


def _active_lanes(wave: Wave, here: Array | None) -> Array:
    """Return `here`, a result of `members`, as a mask. None stands for all live threads."""
    return wave.lanes_by_warp(None) if here is None else here


@opcode("shfl")
def _shfl(instruction: Instruction) -> Action:
    """Decode `shfl`: each thread reads the value of another thread of its warp.

    A thread whose source lane is beyond the clamp value reads its own value.
    """
    sync, mode, type_name = instruction.modifiers
    if sync != "sync" or type_name != "b32" or mode not in ("up", "down", "bfly", "idx"):
        raise unknown(instruction)
    target = instruction.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    value, by, clamp, member_mask = readers(instruction, _U32)
    put, put_valid = writer(first, _U32, instruction), writer(second, _BOOL, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = members(wave, mask, member_mask(wave))
        distance, limits = (wave.by_warp(read(wave)).astype(np.int64) for read in (by, clamp))
        source, valid = _source(mode, distance & 31, limits)
        if here is not None and (here & ~_permuted(here, source)).any():
            raise DeviceFault("barrier", "a thread reads the value of one that does not take part")
        put(wave, wave.from_warps(_permuted(wave.by_warp(value(wave)), source)), mask)
        put_valid(wave, wave.from_warps(valid), mask)

    return run


def _permuted(value: Array, source: Array) -> Array:
    """Return for each thread the value of thread `source` of the same warp."""
    if value.shape[2] == 1:
        return value
    if source.shape[:2] == (1, 1):
        return value[:, :, source[0, 0]]
    shape = np.broadcast_shapes(value.shape, source.shape)
    return np.take_along_axis(np.broadcast_to(value, shape), np.broadcast_to(source, shape), 2)


def _source(mode: str, by: Array, limits: Array) -> tuple[Array, Array]:
    """Return the source lane of each thread, and whether that lane is within the clamp value.

    Source: PTX ISA, `shfl.sync`, pseudocode.
    """
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
    sync, mode, type_name = instruction.modifiers
    if sync != "sync" or mode not in VOTES or type_name not in ("pred", "b32"):
        raise unknown(instruction)
    source = instruction.operands[1]
    value = reader(source.register if isinstance(source, Negated) else source, _BOOL, instruction)
    member_mask = reader(instruction.operands[2], _U32, instruction)
    put = writer(instruction.operands[0], TYPES[type_name], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = _active_lanes(wave, members(wave, mask, member_mask(wave)))
        votes = wave.by_warp(value(wave))
        result = VOTES[mode](~votes if isinstance(source, Negated) else votes, here)
        put(wave, wave.from_warps(result), mask)

    return run


REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


# smallest and largest int32 keys; as floats, both bit patterns are NaN, so no number has these keys
_LEAST, _MOST = np.int32(-(2**31)), np.int32(2**31 - 1)
_NAN = np.uint32(0x7FFFFFFF)  # the NaN that `redux` returns


@opcode("redux")
def _redux(instruction: Instruction) -> Action:
    """Decode `redux`: reduce the values of all members of a warp to one."""
    if instruction.modifiers[-1:] == ("f32",):
        return _redux_of_floats(instruction)
    sync, operation, name = instruction.modifiers
    if sync != "sync" or operation not in REDUCTIONS or name not in ("u32", "s32", "b32"):
        raise unknown(instruction)
    dtype, ufunc = TYPES[name], REDUCTIONS[operation]
    value, member_mask = (
        reader(instruction.operands[1], dtype, instruction),
        reader(instruction.operands[2], _U32, instruction),
    )
    put = writer(instruction.operands[0], dtype, instruction)
    info = np.iinfo(dtype)
    neutral = {"min": info.max, "max": info.min, "and": -1 if dtype.kind == "i" else info.max}.get(operation, 0)

    def run(wave: Wave, mask: Mask) -> None:
        here = _active_lanes(wave, members(wave, mask, member_mask(wave)))
        values = np.where(here, wave.by_warp(value(wave)), dtype.type(neutral))
        put(wave, wave.from_warps(ufunc.reduce(values, 2, dtype=dtype, keepdims=True)), mask)

    return run


def _redux_of_floats(instruction: Instruction) -> Action:
    """Decode `redux` of f32: minimum or maximum, where -0 is less than 0.

    The result is NaN if no member has a number, or with `.NaN` if a member has a NaN.
    """
    sync, operation, *flags, _ = instruction.modifiers
    if sync != "sync" or operation not in ("min", "max") or not {*flags} <= {"abs", "NaN"}:
        raise unknown(instruction)
    value, member_mask = (
        reader(instruction.operands[1], _U32, instruction),
        reader(instruction.operands[2], _U32, instruction),
    )
    put = writer(instruction.operands[0], _U32, instruction)
    ufunc, neutral = (np.minimum, _MOST) if operation == "min" else (np.maximum, _LEAST)

    def run(wave: Wave, mask: Mask) -> None:
        here = _active_lanes(wave, members(wave, mask, member_mask(wave)))
        bits = wave.by_warp(value(wave)) & (0x7FFFFFFF if "abs" in flags else 0xFFFFFFFF)
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        signed = bits.view(np.int32)
        ordered = np.where(here & ~is_nan, signed ^ (signed >> 31 & 0x7FFFFFFF), neutral)
        reduced = ufunc.reduce(ordered, 2, dtype=np.int32, keepdims=True)
        result = np.where(reduced == neutral, _NAN, (reduced ^ (reduced >> 31 & 0x7FFFFFFF)).view(np.uint32))
        has_nan = (here & is_nan).any(2, keepdims=True) & ("NaN" in flags)
        put(wave, wave.from_warps(np.where(has_nan, _NAN, result).astype(np.uint32)), mask)

    return run


@opcode("match")
def _match(instruction: Instruction) -> Action:
    """Decode `match.any`: each thread gets the mask of the threads in its warp that have the same value."""
    if instruction.modifiers[:2] != ("any", "sync"):
        raise unknown(instruction)
    dtype = TYPES[instruction.modifiers[2]]
    value, member_mask = (
        reader(instruction.operands[1], dtype, instruction),
        reader(instruction.operands[2], _U32, instruction),
    )
    put = writer(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = _active_lanes(wave, members(wave, mask, member_mask(wave)))
        values = np.broadcast_to(wave.by_warp(value(wave)), here.shape)
        same = (values[..., :, None] == values[..., None, :]) & here[..., None, :]
        bits = same.astype(np.uint32) << _LANE.astype(np.uint32)
        put(wave, bits.sum(3, dtype=np.uint32).reshape(wave.shape), mask)

    return run


@opcode("elect")
def _elect(instruction: Instruction) -> Action:
    """Decode `elect`: the first participating thread of the warp gets a true predicate, and all threads get the lane
    index of that thread.
    """
    words(instruction, "sync", last=0)
    target = instruction.operands[0]
    if not isinstance(target, Pair):
        raise unknown(instruction)
    put, put_is = writer(target.first, _U32, instruction), writer(target.second, _BOOL, instruction)
    member_mask = reader(instruction.operands[1], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        here = _active_lanes(wave, members(wave, mask, member_mask(wave)))
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
    """Decode `bar.warp.sync`. It only checks the member mask, because the threads of a warp run in lockstep here."""
    if instruction.modifiers != ("warp", "sync"):
        raise unknown(instruction)
    member_mask = reader(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        members(wave, mask, member_mask(wave))

    return run


@opcode("trap", "brkpt")
def _trap(instruction: Instruction) -> Action:
    def run(wave: Wave, mask: Mask) -> None:
        raise DeviceFault("opcode", "the kernel traps")

    return run


# No effect: registers are not limited, writes are visible to all threads at once, and time does not pass.
@opcode("setmaxnreg", "membar", "griddepcontrol", "nanosleep", "pmevent")
def _no_effect(instruction: Instruction) -> Action:
    return nothing
