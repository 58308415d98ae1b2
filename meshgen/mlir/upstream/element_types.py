"""Element types in arith. Its integer types are signless: each operation determines whether integers are signed."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, TensorType, is_complex
from meshgen.mlir.dense import ELEMENT_NAMES
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.upstream.inexpressible import Inexpressible


def signless(kind: TensorType) -> TensorType:
    """Return the type with signless integers, which values inside of a printed function have."""
    return TensorType(kind.shape, kind.dtype[1:]) if kind.dtype.startswith("ui") else kind


def signless_array(array: np.ndarray[Any, Any], kind: TensorType) -> tuple[TensorType, np.ndarray[Any, Any]]:
    """Return the array with the same bits as signless integers, and its type."""
    target = signless(kind)
    return target, array if target == kind else array.view(DTYPES[target.dtype])


def fill_text(number: str, destination: str, kind: TensorType) -> str:
    """Return the text of a `linalg.fill` of the tensor `destination` with the scalar `number`. Both are names of
    values.
    """
    text = tensor_text(kind)
    return f"linalg.fill ins({number} : {element(kind.dtype)}) outs({destination} : {text}) -> {text}"


def element(dtype: str) -> str:
    """Return the text of a scalar type in arith. Raises Inexpressible for complex types, which arith lacks."""
    if is_complex(dtype):
        raise Inexpressible(f"arith has no {dtype}")
    return ELEMENT_NAMES.get(dtype, dtype).removeprefix("u")
