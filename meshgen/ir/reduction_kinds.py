"""The element types that each reduction kind supports: and/or/xor need integers or booleans, max/min an ordered type."""

from __future__ import annotations

from meshgen.errors import Diagnostic
from meshgen.ir.graph import is_complex, is_inexact
from meshgen.spec import Sharding


def combines(kind: str, dtype: str) -> bool:
    """Whether values of element type `dtype` can be partial with reduction kind `kind`."""
    if kind == "sum" and dtype == "f8E8M0FNU":  # f8E8M0FNU has no zero, the neutral element of a sum.
        return False
    if kind in ("and", "or", "xor"):
        return not is_inexact(dtype)
    return kind not in ("max", "min") or not is_complex(dtype)


def kind_faults(sharding: Sharding, dtype: str) -> list[Diagnostic]:
    """Return a diagnostic for each reduction kind of the partial axes of `sharding` that element type `dtype` lacks."""
    return [
        Diagnostic("MG0204", f"elements of {dtype} cannot be partial with kind '{kind}'", hint=_HINT)
        for kind in dict.fromkeys(kind for _, kind in sharding.partial)
        if not combines(kind, dtype)
    ]


_HINT = "sum and product need numbers (f8E8M0FNU has no zero and so no sum), max and min real numbers, and, or and xor integers or i1"
