"""What the cases of PyTorch's operations are given, and the file of their programs and numbers, which `torch_cases.py` writes.

Floats are drawn from a seed, and integers below the number behind the type: `i64[3,2]<4`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

PLACE = Path(__file__).parents[2] / "data" / "torch" / "cases.json.gz"
_TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i1": np.bool_, "f16": np.float16}


def drawn(kind: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """An argument: `f32[4,3]` of a normal distribution, `f32[4]>0` between 0.1 and 1.1, `i64[3]<4` below 4."""
    match = re.fullmatch(r"(\w+)\[([\d,]*)\](?:<(\d+))?(>0)?", kind)
    assert match, kind
    shape = tuple(map(int, filter(None, match[2].split(","))))
    dtype = np.dtype(_TYPES[match[1]])
    if dtype.kind == "f":
        numbers = rng.random(shape) + 0.1 if match[4] else rng.standard_normal(shape)
        return np.asarray(numbers, dtype)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else int(match[3] or 4), shape), dtype)


def arguments(name: str, kinds: tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(sum(map(ord, name)))
    return [drawn(kind, rng) for kind in kinds]


def array_of(row: Any) -> np.ndarray[Any, Any]:
    """An array as the file has it."""
    return np.array(row["numbers"], float).astype(row["dtype"]).reshape(row["shape"])
