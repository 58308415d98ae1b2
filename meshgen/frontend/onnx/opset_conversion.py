"""Conversion of operators from opsets below 7 to the form of opset 7, and of attributes that became operands later.

Add(x[2,3,4], y[3]) {broadcast = 1, axis = 1}    ->    Add(x[2,3,4], y[3,1])                opset 6 to opset 7
Squeeze(x[2,1,4]) {axes = [1]}                   ->    Squeeze(x[2,1,4], axes[1])           opset 11 to opset 13
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.onnx.ops.table import Call, array_of, dim_of
from meshgen.frontend.onnx.schemas import newest_operands, schema_of
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims

FIRST = 7  # The oldest opset whose operators need no conversion.
Form = tuple[Call, list[Any]]

# Operators that need no conversion: their versions differ only in dtypes, in attributes that the importer handles for
# both versions, or in `consumed_inputs`, which concerns memory.
_SAME = frozenset((
    "Abs", "AveragePool", "Ceil", "Clip", "Elu", "Exp", "Floor", "GlobalLpPool", "GRU", "HardSigmoid", "InstanceNormalization",
    "LeakyRelu", "Log", "LpPool", "LSTM", "Max", "Mean", "Min", "Neg", "Pad", "Reciprocal", "Relu", "Reshape", "RNN", "Selu", "Sigmoid",
    "Split", "Sqrt", "Sum", "Tanh",
))  # fmt: skip


def convert_to_opset_7(call: Call, operands: list[Any]) -> Form:
    """Convert a call of a standard operator and the operands from an opset below 7 to their form in opset 7.

    Raises:
        ProgramError: MG0103, this version of the operator is unsupported; MG0104, the operands do not fit the operator.
    """
    schema, newer_schema = (schema_of("", call.op, version) for version in (call.version, FIRST))
    if call.op in _SAME or (schema and newer_schema and schema.since == newer_schema.since):
        return call, operands
    if call.op not in _FORMS:
        hint = "convert the model: onnx.version_converter.convert_version(model, 13)"
        refuse(f"{call.op} of opset {call.version} is not supported", hint, "MG0103")
    return _FORMS[call.op](call, operands)


def append_newer_operands(call: Call, operands: list[Any]) -> list[Any]:
    """Append the operands that older versions of a standard operator store as attributes, such as `axes` of Squeeze."""
    extended = [*operands]
    for index, name in enumerate(newest_operands(call.op)):
        if index >= len(operands) and (value := call[name.lower()]) is not None:
            extended += [None] * (index - len(extended)) + [
                np.asarray(value, np.float32 if isinstance(value, float) else None)
            ]
    return extended


def _with(call: Call, **attributes: Any) -> Call:
    return replace(call, attributes={**call.attributes, **attributes})


def _broadcast(call: Call, operands: list[Any]) -> Form:
    """Reshape the second operand y of an element-wise operator so that it broadcasts with the first operand x.

    The sizes of y match consecutive dims of x, which start at the attribute `axis`, or are the last dims without
    `axis`.
    """
    x, y = operands
    shape, y_shape = x.shape, y.shape
    if not call["broadcast"]:
        _require_equal([shape, y_shape], "set broadcast=1")
        return call, operands
    axis = call["axis"]
    if axis is not None and axis != -1:
        trailing = len(shape) - dim_of(axis, len(shape)) - len(y_shape)
        if trailing < 0:
            refuse(f"{list(y_shape)} does not fit {list(shape)} from dim {axis} on")
        y = expand_dims(y, tuple(range(len(y_shape), len(y_shape) + trailing))) if trailing else y
    _require_fit(y.shape, shape)
    return call, [x, y]


def _require_fit(sizes: Sequence[int], shape: Sequence[int]) -> None:
    leading = len(shape) - len(sizes)
    if leading < 0 or any(size not in (1, n) for size, n in zip(sizes, shape[leading:], strict=True)):
        refuse(f"a tensor of sizes {list(sizes)} does not broadcast to {list(shape)}")


def _require_equal(shapes: Sequence[Sequence[int]], hint: str) -> None:
    if any(tuple(item) != tuple(shapes[0]) for item in shapes):
        refuse(f"operands must have one shape, but have {' and '.join(str(list(item)) for item in shapes)}", hint)


def _gemm(call: Call, operands: list[Any]) -> Form:
    a, b, c = operands
    rows, columns = a.shape[1 if call["transA"] else 0], b.shape[0 if call["transB"] else 1]
    if not call["broadcast"]:
        _require_equal([c.shape, (rows, columns)], "set broadcast=1")
    _require_fit(c.shape, (rows, columns))
    return call, operands


def _prelu(call: Call, operands: list[Any]) -> Form:
    """Reshape the slope of PRelu (one number, or one per feature) to broadcast with the first operand."""
    x, slope = operands
    return call, [x, slope.reshape(() if math.prod(slope.shape) == 1 else (-1, *[1] * (x.ndim - 2)))]


def _batch_normalization(call: Call, operands: list[Any]) -> Form:
    return _with(call, training_mode=0 if call["is_test"] else 1), operands


def _dropout(call: Call, operands: list[Any]) -> Form:
    ratio = 0.0 if call["is_test"] else call["ratio"]
    return call, [*operands, np.asarray(ratio, np.float32), np.asarray(ratio != 0)]


def _cast(call: Call, operands: list[Any]) -> Form:
    return _with(call, to=onnx_package().TensorProto.DataType.Value(call["to"])), operands


def _concat(call: Call, operands: list[Any]) -> Form:
    return (_with(call, axis=1) if call["axis"] is None else call), operands


def _tile(call: Call, operands: list[Any]) -> Form:
    """Convert Tile with a repeat count for one axis to Tile with a repeat count for each dim."""
    x, count, axis = operands
    repeats = np.ones(x.ndim, np.int64)
    repeats[dim_of(array_of(axis, "axis").reshape(()), x.ndim)] = count.reshape(())
    return call, [x, repeats]


_FORMS: dict[str, Callable[[Call, list[Any]], Form]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"), _broadcast),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _dropout,
    "Gemm": _gemm,
    "PRelu": _prelu,
    "Tile": _tile,
}
