"""Arguments of the test cases of PyTorch's operations, and the path of the file that has their programs and results
(`torch_cases.py` writes it).

Floats are drawn from a seed. `i64[3,2]<4` is an array of random integers below 4.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

CASES_FILE = Path(__file__).parents[2] / "data" / "torch" / "cases.json.gz"
_TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i1": np.bool_, "f16": np.float16}


def drawn(spec: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Draw an argument: `f32[4,3]` from a normal distribution, `f32[4]>0` between 0.1 and 1.1, `i64[3]<4` from the
    integers below 4.
    """
    match = re.fullmatch(r"(\w+)\[([\d,]*)\](?:<(\d+))?(>0)?", spec)
    assert match, spec
    shape = tuple(map(int, filter(None, match[2].split(","))))
    dtype = np.dtype(_TYPES[match[1]])
    if dtype.kind == "f":
        floats = rng.random(shape) + 0.1 if match[4] else rng.standard_normal(shape)
        return np.asarray(floats, dtype)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else int(match[3] or 4), shape), dtype)


def arguments(name: str, kinds: tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(sum(map(ord, name)))
    return [drawn(kind, rng) for kind in kinds]


def array_of(row: Any) -> np.ndarray[Any, Any]:
    """Return the array that `row`, an entry of the file, describes."""
    return np.array(row["numbers"], float).astype(row["dtype"]).reshape(row["shape"])
