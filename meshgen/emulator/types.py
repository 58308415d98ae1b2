"""The scalar types of PTX as NumPy dtypes, and conversion of constants to register bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Immediate, Instruction

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

TYPES: dict[str, DType] = {
    "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8), "b8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16), "s16": np.dtype(np.int16), "b16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32), "b32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64), "b64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "tf32": np.dtype(np.float32), "pred": np.dtype(np.bool_),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    **{name: np.dtype(np.uint32) for name in ("f16x2", "bf16x2", "s16x2", "u16x2")},
}  # fmt: skip
PACKED = {
    "f16x2": "f16",
    "bf16x2": "bf16",
    "s16x2": "s16",
    "u16x2": "u16",
    "e4m3x2": "e4m3",
    "e5m2x2": "e5m2",
}  # packed type -> type of the two elements in a register
# register width in bytes -> unsigned dtype of the register's bits
BITS = {0: np.dtype(np.bool_), **{n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}}
WIDER = {np.dtype(f"{sign}{n}"): np.dtype(f"{sign}{2 * n}") for sign in "ui" for n in (1, 2, 4)}
FLOATS = frozenset(TYPES[name] for name in ("f16", "bf16", "f32", "f64", "e4m3", "e5m2"))


def type_of(instruction: Instruction, index: int = -1) -> DType:
    """Return the dtype of the type modifier at `index`, by default the last modifier. Raises DeviceFault if the
    modifier is not a type.
    """
    name = instruction.modifiers[index] if instruction.modifiers else ""
    if name not in TYPES:
        raise unknown(instruction)
    return TYPES[name]


def unknown(instruction: Instruction) -> DeviceFault:
    """Return the fault "opcode" for an instruction that the emulator does not support."""
    name = ".".join((instruction.opcode, *instruction.modifiers))
    return DeviceFault("opcode", f"the emulated GPU has no instruction '{name}'", instruction.source)


def constant(value: Immediate, dtype: DType) -> Array:
    """Return a constant as an array [1, 1] of type `dtype`."""
    if dtype == np.bool_:
        return np.full((1, 1), bool(value.bits))
    width = dtype.itemsize
    bits = value.bits % (1 << 8 * width)
    if value.width and value.width != width:  # a float constant of another width is converted by value
        raw = np.array(value.bits, BITS[value.width]).view(TYPES[f"f{8 * value.width}"])
        return raw.astype(dtype).reshape(1, 1)
    return np.array(bits, BITS[width]).view(dtype).reshape(1, 1)
