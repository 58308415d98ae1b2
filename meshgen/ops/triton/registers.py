"""Values in the registers of a Triton kernel: types, constants, conversions.

Narrow floats (bf16, f16, f8) are held in registers as f32; values of all other types are held in their own type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Node, is_float

TRITON_TYPES = {
    "i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8E4M3FN": "float8e4nv", "f8E5M2": "float8e5",
}  # fmt: skip
SIGNATURE_TYPES = {  # Names in kernel signatures; a pointer type has a leading star.
    "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "ui8": "u8", "ui16": "u16", "ui32": "u32", "ui64": "u64",
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5",
}  # fmt: skip
NARROW = frozenset({"bf16", "f16", "f8E4M3FN", "f8E5M2"})
BITS = {"i8": 8, "ui8": 8, "i16": 16, "ui16": 16, "i32": 32, "ui32": 32, "i64": 64, "ui64": 64}
# Triton's own conversion to these types saturates, and StableHLO's does not.
_ROUND = {"f8E4M3FN": "to_f8e4m3fn", "f8E5M2": "to_f8e5m2"}


class Code(NamedTuple):
    """A value in registers: the source text of the value, the element type in the program, and the number if it is
    constant.
    """

    text: str
    dtype: str
    number: float | int | None = None


Made: TypeAlias = tuple[str, tuple[str, ...]]
"""Source text, and the helper functions that it calls."""
Expression: TypeAlias = Callable[[Node, Sequence[Code]], Made]
"""A function that returns the source of an op over operands in registers. Raises CodegenError MG0301 if Triton cannot
express the op.
"""


def register_type(dtype: str) -> str:
    """Return Triton's name of the type in which registers hold an element type."""
    return "tl.float32" if dtype in NARROW else f"tl.{TRITON_TYPES[dtype]}"


def literal(value: float | int | bool, dtype: str) -> str:
    """Return the source of a scalar constant. A float has all digits.

    Triton's own literals have type f32 or i32 only, so other types become a typed `tl.full`.
    """
    if is_float(dtype):
        number = float(value)
        # Triton replaces a literal that equals 0.0 by 0.0. The source of -0.0 is therefore its bit pattern.
        if number == 0 and math.copysign(1, number) < 0:
            bits = 64 if dtype == "f64" else 32
            return f"tl.full([], {-(1 << bits - 1)}, tl.int{bits}).to(tl.float{bits}, bitcast=True)"
        text = repr(number) if number - number == 0 else f'float("{number}")'
        return text if dtype != "f64" else f"tl.full([], {text}, tl.float64)"
    if dtype == "i1":
        return f"tl.full([], {int(value)}, tl.int1)"
    return str(int(value)) if dtype == "i32" else f"tl.full([], {int(value)}, tl.{TRITON_TYPES[dtype]})"


def both(conditions: Sequence[str]) -> str:
    """Return the conjunction of all conditions, or "" for no conditions."""
    once = list(dict.fromkeys(conditions))
    return " & ".join(f"({c})" for c in once) if len(once) > 1 else "".join(once)


def convert(text: str, source: str, target: str) -> Made:
    """Convert a register value to another element type. A conversion to a narrow float rounds."""
    if target == "i1":
        return f"{text} != 0", ()
    if target in _ROUND:
        text, helpers = rounded(text if source in (*NARROW, "f32") else f"{text}.to(tl.float32)", target)
        return f"{text}.to(tl.float32)", helpers
    if target in NARROW:
        return f"{text}.to(tl.{TRITON_TYPES[target]}).to(tl.float32)", ()
    if register_type(source) == register_type(target):
        return text, ()
    # The device's conversion to 8 or 16 bits goes through 32 bits and truncates, so values are clamped first.
    if is_float(source) and BITS.get(target, 32) < 32:
        low, high = (
            (0, 2 ** BITS[target]) if target.startswith("ui") else (-(2 ** (BITS[target] - 1)), 2 ** (BITS[target] - 1))
        )
        return f"saturated({text}, {low}.0, {high - 1}.0).to({register_type(target)})", ("saturated",)
    return f"{text}.to({register_type(target)})", ()


def rounded(text: str, dtype: str) -> Made:
    """Return source that converts a register value to the type in which memory holds it, and the helpers that it calls."""
    if dtype in _ROUND:
        return f"{_ROUND[dtype]}({text})", (_ROUND[dtype],)
    return f"{text}.to(tl.{TRITON_TYPES[dtype]})", ()


def zero(dtype: str) -> str:
    """Return the fill value of masked loads. An integer literal cannot fill 8-bit floats."""
    return "0.0" if dtype in _ROUND else "0"


def unsupported(node: Node) -> Diagnostic:
    types = ", ".join(str(v.type) for v in node.operands)
    return Diagnostic("MG0301", f"no kernel can be generated for '{node.op}' of {types}", node.loc,
                      hint="compile it with --target cpu: it runs on the reference device")  # fmt: skip
