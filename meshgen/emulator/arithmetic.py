"""Arithmetic instructions: integers that wrap around, and floats rounded as the PTX ISA specifies.

Add, subtract, multiply, `fma`, `div.rn`, `rcp.rn` and `sqrt.rn` are correctly rounded, as on a GPU. The approximate
functions (`ex2.approx`, `rsqrt.approx`, `div.full`, ...) are correctly rounded here, whereas a GPU errs by up to 2
units in the last place (PTX ISA 8.7 states each error bound). Tensor cores: see `matrices.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.decoder_table import elementwise, opcode, reader, writer
from meshgen.emulator.program import Instruction
from meshgen.emulator.rounding import MODES, flushed, fma32, rounded, to_odd
from meshgen.emulator.types import BITS, FLOATS, PACKED, TYPES, WIDER, Array, DType, type_of, unknown
from meshgen.emulator.wave import Action, Mask, Wave
from meshgen.ops.evaluate.fma import fma64, lost

Function = Callable[..., Array]
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def words(instruction: Instruction, *allowed: str, last: int = 1) -> set[str]:
    """Return the modifiers of an instruction without the last `last` modifiers, which are types. Raises DeviceFault if
    one is not in `allowed`.
    """
    modifiers = set(instruction.modifiers[: len(instruction.modifiers) - last])
    if not modifiers <= set(allowed):
        raise unknown(instruction)
    return modifiers


def _mode(modifiers: set[str], instruction: Instruction) -> str:
    modes = [mode for mode in MODES if mode in modifiers]
    if len(modes) > 1:
        raise unknown(instruction)
    return modes[0] if modes else "rn"


def float_function(instruction: Instruction, exact: Function, allowed: tuple[str, ...] = ()) -> Action:
    """Decode an element-wise function of floats, with `.ftz` and `.sat`. The two halves of a packed type are processed
    separately.

    Args:
        exact: function that takes operands of the instruction's type or a wider one, and returns the correctly rounded
            result in the operands' type.
    """
    modifiers = words(instruction, "ftz", "sat", *allowed)
    name = instruction.modifiers[-1]
    if name in PACKED:
        return _packed(instruction, TYPES[PACKED[name]], exact)
    dtype = type_of(instruction)
    function = exact
    if "ftz" in modifiers and dtype == _F32:
        function = _flushing(function)
    if "sat" in modifiers:
        function = _saturating(function)
    return elementwise(instruction, dtype, function)


def _packed(instruction: Instruction, dtype: DType, function: Function) -> Action:
    """Return the action that applies `function` to both 16-bit halves of the registers."""
    sources = [reader(operand, np.dtype(np.uint32), instruction) for operand in instruction.operands[1:]]
    put = writer(instruction.operands[0], np.dtype(np.uint32), instruction)

    def run(wave: Wave, mask: Mask) -> None:
        values = [source(wave) for source in sources]
        low = function(*((v & np.uint32(0xFFFF)).astype(np.uint16).view(dtype) for v in values))
        high = function(*((v >> np.uint32(16)).astype(np.uint16).view(dtype) for v in values))
        put(wave, low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16), mask)

    return run


def _flushing(function: Function) -> Function:
    return lambda *values: flushed(function(*(flushed(value) for value in values)))


def _saturating(function: Function) -> Function:
    def run(*values: Array) -> Array:
        result = function(*values)
        one = result.dtype.type(1)
        return np.where(result > 0, np.minimum(result, one), result.dtype.type(0))

    return run


def _is_float(instruction: Instruction) -> bool:
    name = instruction.modifiers[-1]
    return TYPES.get(PACKED.get(name, name)) in FLOATS


def _rounded_arithmetic(
    instruction: Instruction, function: np.ufunc, wide: Callable[[Array, Array, str, DType], Array]
) -> Action:
    """Decode `add`, `sub` or `mul` of floats.

    NumPy rounds f32 and f64 to nearest. For other types and rounding modes, `wide` computes the result.
    """
    mode = _mode(words(instruction, "ftz", "sat", *MODES), instruction)
    name = instruction.modifiers[-1]
    dtype = TYPES[PACKED.get(name, name)]
    if mode == "rn" and dtype in (_F32, _F64):
        return float_function(instruction, function, MODES)
    if dtype == _F64:
        raise unknown(instruction)
    return float_function(instruction, lambda a, b: wide(a, b, mode, dtype), MODES)


def _wide_add(a: Array, b: Array, mode: str, dtype: DType) -> Array:
    x, y = a.astype(np.float64), b.astype(np.float64)
    total = x + y
    return rounded(to_odd(total, lost(x, y, total)), dtype, mode)


def _wide_subtract(a: Array, b: Array, mode: str, dtype: DType) -> Array:
    return _wide_add(a, -b, mode, dtype)


def _wide_multiply(a: Array, b: Array, mode: str, dtype: DType) -> Array:
    return rounded(a.astype(np.float64) * b.astype(np.float64), dtype, mode)


@opcode("add")
def _add(instruction: Instruction) -> Action:
    if _is_float(instruction):
        return _rounded_arithmetic(instruction, np.add, _wide_add)
    return _integer(instruction, np.add)


@opcode("sub")
def _sub(instruction: Instruction) -> Action:
    if _is_float(instruction):
        return _rounded_arithmetic(instruction, np.subtract, _wide_subtract)
    return _integer(instruction, np.subtract)


@opcode("mul")
def _mul(instruction: Instruction) -> Action:
    if _is_float(instruction):
        return _rounded_arithmetic(instruction, np.multiply, _wide_multiply)
    (part,) = words(instruction, "lo", "hi", "wide")
    dtype = type_of(instruction)
    if part == "wide":
        return elementwise(instruction, dtype, _wide_product, WIDER[dtype])
    return elementwise(instruction, dtype, np.multiply if part == "lo" else high_product)


def _wide_product(a: Array, b: Array) -> Array:
    wide = WIDER[a.dtype]
    return a.astype(wide) * b.astype(wide)


def high_product(a: Array, b: Array) -> Array:
    """Return the upper half of the product of two integers."""
    dtype = a.dtype
    if dtype.itemsize < 8:
        wide = WIDER[dtype]
        return (a.astype(wide) * b.astype(wide) >> wide.type(8 * dtype.itemsize)).astype(dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = a.view(np.uint64), b.view(np.uint64)
    middle = (x & low) * (y & low) >> half
    first = (x >> half) * (y & low) + middle
    second = (x & low) * (y >> half) + (first & low)
    high = (x >> half) * (y >> half) + (first >> half) + (second >> half)
    if dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(dtype)


@opcode("mad")
def _mad(instruction: Instruction) -> Action:
    if _is_float(instruction):
        return _fma(instruction)
    (part,) = words(instruction, "lo", "hi", "wide")
    dtype = type_of(instruction)
    if part != "wide":
        product: Function = np.multiply if part == "lo" else high_product
        return elementwise(instruction, dtype, lambda a, b, c: product(a, b) + c)
    left, right = (reader(operand, dtype, instruction) for operand in instruction.operands[1:3])
    addend = reader(instruction.operands[3], WIDER[dtype], instruction)
    put = writer(instruction.operands[0], WIDER[dtype], instruction)
    return lambda wave, mask: put(wave, _wide_product(left(wave), right(wave)) + addend(wave), mask)


@opcode("fma")
def _fma(instruction: Instruction) -> Action:
    mode = _mode(words(instruction, "ftz", "sat", "relu", *MODES), instruction)
    name = instruction.modifiers[-1]
    dtype = TYPES[PACKED.get(name, name)]
    if "relu" in instruction.modifiers or (mode != "rn" and dtype == _F64):
        raise unknown(instruction)
    if dtype == _F64:
        return float_function(instruction, fma64, MODES)
    if dtype == _F32 and mode == "rn":
        return float_function(instruction, fma32, MODES)

    def exact(a: Array, b: Array, c: Array) -> Array:
        product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        total = product + addend
        return rounded(to_odd(total, lost(product, addend, total)), dtype, mode)

    return float_function(instruction, exact, MODES)


@opcode("div")
def _div(instruction: Instruction) -> Action:
    if not _is_float(instruction):
        words(instruction)
        return elementwise(instruction, type_of(instruction), _quotient)
    modifiers = words(instruction, "ftz", "approx", "full", *MODES)
    if "approx" in modifiers:
        return float_function(instruction, _approximate_quotient, ("approx",))
    if modifiers & {"rz", "rm", "rp"}:
        mode = _mode(modifiers, instruction)
        return float_function(instruction, lambda a, b: rounded(a.astype(np.float64) / b, _F32, mode), MODES)
    return float_function(instruction, np.divide, ("full", *MODES))


def _approximate_quotient(a: Array, b: Array) -> Array:
    """Return `a` times the reciprocal of `b`, where subnormal reciprocals are 0, as for 2^126 < |b| < 2^128 (PTX ISA,
    `div.approx`).
    """
    large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    return np.where(large, np.where(np.isinf(a), np.float32(np.nan), np.float32(0)), a / b)


def _quotient(a: Array, b: Array) -> Array:
    """Divide integers towards zero. Division by zero sets all bits of the quotient, as GPUs do."""
    unsigned = BITS[a.dtype.itemsize]
    top, bottom = _magnitude(a), _magnitude(b)
    quotient = top // np.where(bottom == 0, unsigned.type(1), bottom)
    if a.dtype.kind == "i":
        quotient = np.where((a < 0) != (b < 0), np.uint8(0) - quotient, quotient).astype(unsigned)
    return np.where(b == 0, ~unsigned.type(0), quotient).astype(unsigned).view(a.dtype)


def _magnitude(value: Array) -> Array:
    bits = value.view(BITS[value.dtype.itemsize])
    return bits if value.dtype.kind == "u" else np.where(value < 0, ~bits + bits.dtype.type(1), bits)


@opcode("rem")
def _rem(instruction: Instruction) -> Action:
    words(instruction)
    return elementwise(instruction, type_of(instruction), lambda a, b: np.where(b == 0, a, a - _quotient(a, b) * b))


@opcode("neg")
def _neg(instruction: Instruction) -> Action:
    return float_function(instruction, np.negative) if _is_float(instruction) else _integer(instruction, np.negative)


@opcode("abs")
def _abs(instruction: Instruction) -> Action:
    return float_function(instruction, np.abs) if _is_float(instruction) else _integer(instruction, np.abs)


def _integer(instruction: Instruction, function: Function) -> Action:
    words(instruction)
    if instruction.modifiers[-1] in PACKED:
        return _packed(instruction, TYPES[PACKED[instruction.modifiers[-1]]], function)
    return elementwise(instruction, type_of(instruction), function)


@opcode("min")
def _min(instruction: Instruction) -> Action:
    return _extremum(instruction, np.fmin, np.minimum, np.bitwise_or)


@opcode("max")
def _max(instruction: Instruction) -> Action:
    return _extremum(instruction, np.fmax, np.maximum, np.bitwise_and)


def _extremum(instruction: Instruction, numbers: np.ufunc, any_nan: np.ufunc, of_equal: np.ufunc) -> Action:
    """Decode `min` or `max`. Negative zero is less than positive zero, and `.relu` of s32 clamps negative results to 0.

    Args:
        numbers: the function that prefers a number to NaN.
        any_nan: the function that returns NaN if an operand is NaN (`.NaN`).
        of_equal: combines the bits of equal operands, which selects the zero with the right sign.
    """
    if instruction.modifiers == ("relu", "s32"):
        return elementwise(instruction, type_of(instruction), lambda a, b: np.maximum(any_nan(a, b), 0))
    if not _is_float(instruction):
        return _integer(instruction, any_nan)
    choose = any_nan if "NaN" in words(instruction, "ftz", "NaN") else numbers

    def exact(a: Array, b: Array) -> Array:
        bits = BITS[a.dtype.itemsize]
        return np.where(a == b, of_equal(a.view(bits), b.view(bits)).view(a.dtype), choose(a, b))

    return float_function(instruction, exact, ("NaN",))


@opcode("copysign")
def _copysign(instruction: Instruction) -> Action:
    """Decode `copysign`: the result is the second operand with the sign of the first."""
    return float_function(instruction, lambda sign, value: np.copysign(value, sign))


def _reciprocal_root(value: Array) -> Array:
    return (1.0 / np.sqrt(value.astype(np.float64))).astype(value.dtype)


def _through_f64(function: Function) -> Function:
    """Wrap `function` so that it is computed in f64, and the result is rounded once to the operand type. A few results
    in 10^8 are not correctly rounded, because they are rounded twice.
    """
    return lambda value: function(value.astype(np.float64)).astype(value.dtype)


APPROXIMATE: dict[str, Function] = {
    "ex2": _through_f64(np.exp2),
    "lg2": _through_f64(np.log2),
    "sin": _through_f64(np.sin),
    "cos": _through_f64(np.cos),
    "tanh": _through_f64(np.tanh),
    "rsqrt": _reciprocal_root,
    "rcp": lambda value: (1.0 / value.astype(np.float64)).astype(value.dtype),
    "sqrt": np.sqrt,
}


@opcode(*APPROXIMATE)
def _approximate(instruction: Instruction) -> Action:
    modifiers = words(instruction, "approx", "rn", "ftz")
    if "rn" in modifiers and instruction.opcode not in ("rcp", "sqrt"):
        raise unknown(instruction)
    return float_function(instruction, APPROXIMATE[instruction.opcode], ("approx", "rn"))
