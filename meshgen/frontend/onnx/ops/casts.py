"""Casts and constants."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.onnx.ops.table import Array, Call, enter_rows, op
from meshgen.frontend.tracer.creation import eye, full, iota
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.logic import bitcast_convert_type
from meshgen.frontend.tracer.operands import dtype_of
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.rounding import trunc
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import DTYPES, dtype_name, is_float

MANY = 1 << 16  # Elements of the longest range that is constant-folded. Chosen: longer ranges become an iota.


def dtype_of_code(code: int) -> str:
    """Return the IR's dtype for a code of `TensorProto.DataType`. Raises ProgramError MG0104 for an unsupported one."""
    try:
        return dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError):
        refuse(f"the element type {onnx_package().TensorProto.DataType.Name(code)} is not supported")


def converted(x: Tensor, kind: str, call: Call) -> Tensor:
    """Cast `x` to the dtype `kind`.

    Casts to f8 saturate to the largest finite number unless the attribute `saturate` is 0.
    """
    if kind.startswith("f8E8"):
        refuse("casts to float8e8m0 are not supported")
    if kind.startswith("f8") and call["saturate"] != 0:
        max_finite = float(ml_dtypes.finfo(DTYPES[kind]).max)
        x = clip(x, -max_finite, max_finite) if x.type.dtype in ("f16", "bf16", "f32", "f64") else x
    if is_float(x.type.dtype) and kind[-1] in "24" and kind.lstrip("u").startswith("i") and len(kind) <= 3:
        # ONNX casts to 2 and 4 bits keep the lowest bits of the integer part, so go through i32.
        x = trunc(x).astype("i32")
    return x.astype(kind)


@op("BitCast")
def bit_cast(call: Call, x: Tensor) -> Tensor:
    x = x.astype("ui8") if x.type.dtype == "i1" else x
    return bitcast_convert_type(x, dtype_of_code(call["to"]))


@op("Constant")
def constant(call: Call) -> Array:
    """Return the value of a `Constant` node, which has exactly one of several value attributes."""
    if (value := call["value"]) is not None:
        return value
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        if (value_ := call[name]) is not None:
            return np.asarray(value_, np.float32 if "float" in name else np.int64)
    return refuse("constants of strings, and sparse ones, are not supported")


@op("ConstantOfShape", known=(0,))
def constant_of_shape(call: Call, shape: Array) -> Tensor:
    value = np.zeros(1, np.float32) if call["value"] is None else call["value"]
    return full(shape.tolist(), value.reshape(())[()], dtype_of(value.dtype))


@op("EyeLike")
def eye_like(call: Call, x: Tensor) -> Tensor:
    rows, columns = x.shape
    kind = x.type.dtype if call["dtype"] is None else dtype_of_code(call["dtype"])
    return eye(rows, columns, call["k"] or 0, kind)


@op("Range", known=(0, 1, 2))
def range_(call: Call, start: Array, limit: Array, delta: Array) -> Any:
    """Return a range of up to `MANY` elements as an array, and a longer one as a tensor that the program computes."""
    first, last, step = start.item(), limit.item(), delta.item()
    if not step or not all(map(math.isfinite, (first, last, step))):
        refuse(f"a range from {first} to {last} in steps of {step} has no end")
    count = max(0, math.ceil((last - first) / step))
    if count <= MANY:
        return (first + np.arange(count) * step).astype(start.dtype)
    return (iota((count,), 0, "i64") * step + first).astype(start.dtype)


enter_rows({
    "Cast": lambda call, x: converted(x, dtype_of_code(call["to"]), call),
    "CastLike": lambda call, x, like: converted(x, like.type.dtype, call),
})  # fmt: skip
enter_rows({  # Shape and size of a tensor are compile-time constants, even if the elements are not.
    "Shape": lambda call, x: np.asarray(x.shape[slice(call["start"] or 0, call["end"])], np.int64),
    "Size": lambda call, x: np.asarray(math.prod(x.shape), np.int64),
}, plain=(0,))  # fmt: skip
