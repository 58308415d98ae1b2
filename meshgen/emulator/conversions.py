"""`cvt`: conversions between integer and float types, and `cvta`: conversions of addresses.

Source: PTX ISA 8.7, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from meshgen.emulator.addresses import LOCAL_WINDOW, PARAMETERS, SHARED_WINDOW
from meshgen.emulator.decoder_table import opcode, reader, writer
from meshgen.emulator.program import Instruction, Register
from meshgen.emulator.rounding import MODES, flushed, rounded
from meshgen.emulator.types import BITS, FLOATS, PACKED, TYPES, Array, DType, unknown
from meshgen.emulator.wave import Action, Mask, Wave

Function = Callable[[Array], Array]
_TO_INTEGER: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_F32, _U32 = np.dtype(np.float32), np.dtype(np.uint32)
_NARROW = tuple(TYPES[name] for name in ("e4m3", "e5m2"))
_WORDS = {*MODES, *_TO_INTEGER, "rna", "ftz", "sat", "satfinite", "relu"}


@opcode("cvt")
def _cvt(instruction: Instruction) -> Action:
    *modifiers, target_name, source_name = instruction.modifiers
    if not set(modifiers) <= _WORDS or "relu" in modifiers:
        raise unknown(instruction)
    if target_name == "tf32":
        return _tf32(instruction, modifiers)
    if target_name in PACKED:
        return _to_packed(instruction, modifiers, target_name, source_name)
    if target_name not in TYPES or source_name not in TYPES:
        raise unknown(instruction)
    target, source = TYPES[target_name], TYPES[source_name]
    convert = conversion(target, source, modifiers, instruction)
    read, put = (
        reader(instruction.operands[1], source, instruction),
        writer(instruction.operands[0], target, instruction),
    )
    return lambda wave, mask: put(wave, convert(read(wave)), mask)


def conversion(target: DType, source: DType, modifiers: list[str], instruction: Instruction) -> Function:
    """Return the function that converts values of type `source` to type `target`, with the rounding and saturation that
    `modifiers` select.
    """
    mode = next((word for word in modifiers if word in MODES), "rn")
    round_to_integer = next((_TO_INTEGER[word] for word in modifiers if word in _TO_INTEGER), None)
    if source in FLOATS and target not in FLOATS:
        if round_to_integer is None:
            raise unknown(instruction)
        return _flushing(lambda value: _to_integer(value, target, round_to_integer), modifiers, source)
    if source in FLOATS:
        return _flushing(_between_floats(target, source, mode, round_to_integer, modifiers), modifiers, source, target)
    if target in FLOATS:
        return lambda value: _from_integer(value, target, mode)
    if "sat" in modifiers:
        info = np.iinfo(target)
        low, high = max(info.min, np.iinfo(source).min), min(info.max, np.iinfo(source).max)
        return lambda value: np.clip(value, source.type(low), source.type(high)).astype(target)
    return lambda value: value.astype(target)


def _flushing(function: Function, modifiers: list[str], *kinds: DType) -> Function:
    """Wrap `function` so that it flushes subnormal f32 operands and results to zero, if the modifiers contain
    `.ftz`.
    """
    if "ftz" not in modifiers:
        return function
    source, target = kinds[0], kinds[-1]

    def run(value: Array) -> Array:
        result = function(flushed(value) if source == _F32 else value)
        return flushed(result) if target == _F32 and len(kinds) > 1 else result

    return run


def _to_integer(value: Array, target: DType, round_to_integer: Function) -> Array:
    """Round to an integer with `round_to_integer` and saturate to the range of `target`.

    NaN becomes 0, or the most significant bit alone if the source or the target has 64 bits.
    """
    info = np.iinfo(target)
    wide = round_to_integer(value.astype(np.float64))
    low, high = float(info.min), float(info.max)
    inside = (wide > low) & (wide < high)
    exact = np.where(inside, wide, 0).astype(target)
    result = np.where(inside, exact, np.where(wide >= high, target.type(info.max), target.type(info.min)))
    is_large = value.dtype.itemsize == 8 or target.itemsize == 8
    bits = BITS[target.itemsize]
    nan = np.array(1 << (8 * target.itemsize - 1) if is_large else 0, bits).view(target)
    return np.where(np.isnan(wide), nan, result)


def _from_integer(value: Array, target: DType, mode: str) -> Array:
    if value.dtype.itemsize < 8:
        return rounded(value.astype(np.float64), target, mode)
    if target == np.float64 and mode == "rn":
        return value.astype(np.float64)
    if target == np.float64:
        return rounded_up_or_down(value, mode)
    # f64 holds 53 bits. The 12 low bits are folded into a sticky bit, which is enough for rounding to `target`.
    magnitude = np.abs(value.view(np.int64)).view(np.uint64) if value.dtype.kind == "i" else value
    sticky = (magnitude & np.uint64(0xFFF)) != 0
    odd = np.where(
        magnitude >> np.uint64(52), magnitude >> np.uint64(12) << np.uint64(12) | sticky * np.uint64(1 << 12), magnitude
    )
    wide = odd.astype(np.float64)
    return rounded(np.where(value < 0, -wide, wide), target, mode)


def rounded_up_or_down(value: Array, mode: str) -> Array:
    """Convert 64-bit integers to f64, rounded up or down as `mode` selects."""
    near = value.astype(np.float64)
    back = np.array([int(element) for element in near.ravel()], object).reshape(near.shape)
    exact = np.array([int(element) for element in value.ravel()], object).reshape(near.shape)
    low, high = back < exact, back > exact
    if mode == "rz":
        low, high = low & (value < 0), high & (value > 0)
    up = np.where(low.astype(np.bool_) & (mode != "rm"), np.nextafter(near, np.inf), near)
    return np.where(high.astype(np.bool_) & (mode != "rp"), np.nextafter(near, -np.inf), up)


def _between_floats(
    target: DType, source: DType, mode: str, round_to_integer: Function | None, modifiers: list[str]
) -> Function:
    def convert(value: Array) -> Array:
        if round_to_integer is not None:
            value = round_to_integer(value.astype(np.float64)).astype(source)
        if target == source:
            result = value
        elif mode == "rn" and source == _F32:
            result = value.astype(target)
        else:
            result = rounded(value.astype(np.float64), target, mode)
        return np.clip(result, target.type(0), target.type(1)) if "sat" in modifiers else result

    if "satfinite" in modifiers:
        return lambda value: saturated(value, target)
    return convert


def saturated(value: Array, target: DType) -> Array:
    """Round to type `target` to nearest, saturating to the largest finite value."""
    top = float(ml_dtypes.finfo(target).max)
    wide = value.astype(np.float32)
    return np.where(np.isnan(wide), np.float32(np.nan), np.clip(wide, -top, top)).astype(target)


def _tf32(instruction: Instruction, modifiers: list[str]) -> Action:
    """Decode a conversion to tf32, which is f32 with a mantissa of 10 bits. Ties round away from zero (`rna`) or to
    even (`rn`).
    """
    if modifiers not in (["rna"], ["rn"], ["rna", "satfinite"], ["rn", "satfinite"]):
        raise unknown(instruction)
    read, put = (reader(instruction.operands[1], _U32, instruction), writer(instruction.operands[0], _U32, instruction))

    def run(wave: Wave, mask: Mask) -> None:
        bits = read(wave)
        half = np.uint32(0x1000) if "rna" in modifiers else np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
        finite = bits & np.uint32(0x7F800000) != np.uint32(0x7F800000)
        put(wave, np.where(finite, bits + half & np.uint32(0xFFFFE000), bits), mask)

    return run


def _to_packed(instruction: Instruction, modifiers: list[str], target_name: str, source_name: str) -> Action:
    """Decode a conversion of two numbers into one register. The source is a packed register, or two f32 registers, the
    second of which becomes the low half.
    """
    target = TYPES[PACKED[target_name]]
    out = BITS[2 * target.itemsize]
    put = writer(instruction.operands[0], out, instruction)
    is_fp8 = target in _NARROW
    if is_fp8 and "satfinite" not in modifiers:
        raise unknown(instruction)
    mode = next((word for word in modifiers if word in MODES), "rn")

    def convert(value: Array) -> Array:
        if "satfinite" in modifiers:
            return saturated(value, target)
        return value.astype(target) if mode == "rn" else rounded(value.astype(np.float64), target, mode)

    halves = _halves(instruction, source_name)

    def run(wave: Wave, mask: Mask) -> None:
        high, low = (convert(half).view(BITS[target.itemsize]).astype(out) for half in halves(wave))
        put(wave, high << out.type(8 * target.itemsize) | low, mask)

    return run


def _halves(instruction: Instruction, source_name: str) -> Callable[[Wave], tuple[Array, Array]]:
    """Return a function that reads the two numbers to convert as f32. The number for the high half comes first."""
    if source_name == "f32":
        high, low = (reader(operand, _F32, instruction) for operand in instruction.operands[1:3])
        return lambda wave: (high(wave), low(wave))
    if source_name not in PACKED or len(instruction.operands) != 2:
        raise unknown(instruction)
    source = TYPES[PACKED[source_name]]
    both, part = BITS[2 * source.itemsize], BITS[source.itemsize]
    read = reader(instruction.operands[1], both, instruction)

    def halves(wave: Wave) -> tuple[Array, Array]:
        value = read(wave)
        high = (value >> both.type(8 * source.itemsize)).astype(part).view(source)
        return high.astype(np.float32), value.astype(part).view(source).astype(np.float32)

    return halves


@opcode("cvta")
def _cvta(instruction: Instruction) -> Action:
    """Decode `cvta`: convert an address between a state space and the generic space.

    Shared and local memory have windows in the generic space. A parameter address may have lost its high bits in a
    register of 32 bits, so they are restored. Addresses of other spaces are unchanged.
    """
    windows = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW}
    spaces = [word for word in instruction.modifiers if word in (*windows, "global", "const", "param")]
    if len(spaces) != 1 or not set(instruction.modifiers) <= {spaces[0], "to", "u64", "u32"}:
        raise unknown(instruction)
    offset = np.uint64(windows.get(spaces[0], 0))
    if "to" in instruction.modifiers:
        offset = np.uint64(0) - offset
    target, source = (
        TYPES["u32"] if isinstance(operand, Register) and operand.width == 4 else TYPES["u64"]
        for operand in instruction.operands
    )
    read, put = (
        reader(instruction.operands[1], source, instruction),
        writer(instruction.operands[0], target, instruction),
    )
    inside = np.uint64(PARAMETERS if spaces[0] == "param" and "to" not in instruction.modifiers else 0)
    return lambda wave, mask: put(wave, ((read(wave).astype(np.uint64) + offset) | inside).astype(target), mask)
