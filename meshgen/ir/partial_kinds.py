"""The element types for which each reduction kind can be partial: and/or/xor need integers, max/min an order."""

from __future__ import annotations

from meshgen.errors import Diagnostic
from meshgen.ir.graph import is_complex, is_inexact
from meshgen.spec import Sharding


def combines(kind: str, dtype: str) -> bool:
    """Whether elements of type `dtype` can be reduced with `kind`."""
    if kind == "sum" and dtype == "f8E8M0FNU":  # f8E8M0FNU has no zero, the neutral element of a sum.
        return False
    if kind in ("and", "or", "xor"):
        return not is_inexact(dtype)
    return kind not in ("max", "min") or not is_complex(dtype)


def kind_faults(sharding: Sharding, dtype: str) -> list[Diagnostic]:
    """Return a diagnostic for each partial reduction kind of a sharding that `dtype` does not support."""
    return [
        Diagnostic("MG0204", f"elements of {dtype} cannot be partial with kind '{kind}'", hint=_HINT)
        for kind in dict.fromkeys(kind for _, kind in sharding.partial)
        if not combines(kind, dtype)
    ]


_HINT = "sum and product need numbers (f8E8M0FNU has no zero and so no sum), max and min real numbers, and, or and xor integers or i1"
