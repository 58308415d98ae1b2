"""How large a program may be: what is beyond is refused before memory is spent on it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from meshgen.errors import Diagnostic
from meshgen.ir.graph import DTYPES, TensorType, Value
from meshgen.ir.infer.site import product

MAX_RANK = 32  # NumPy has 64 dims: a tile takes two where its dims are held apart
MAX_BYTES = 1 << 53  # 8 PiB: to where costs, which are floats, count single bytes


@lru_cache(maxsize=4096)
def size_fault(kind: TensorType) -> str:
    """What is too large about a tensor; empty where nothing is. Dims that are open count as 1."""
    if kind.rank > MAX_RANK:
        return f"a tensor of rank {kind.rank} is too large: there are {MAX_RANK} dims at most"
    count = product(1 if size is None else size for size in kind.shape) or 0
    width = DTYPES[kind.dtype].itemsize if kind.dtype in DTYPES else 1
    if count * width > MAX_BYTES:
        power = (count * width).bit_length() - 1
        return f"{kind} has 2^{power} bytes and more; a tensor may have 2^{MAX_BYTES.bit_length() - 1} at most"
    return ""


def input_faults(inputs: Iterable[Value]) -> list[Diagnostic]:
    """Inputs of a program that are too large."""
    found = ((value, size_fault(value.type)) for value in inputs)
    return [
        Diagnostic("MG0108", f"argument '{value.name}': {message}", value.loc) for value, message in found if message
    ]
