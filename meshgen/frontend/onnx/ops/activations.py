"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from meshgen.frontend.onnx.ops.table import Call, dim_of, enter_rows, enter_traced, like, of_tensor, shape_of
from meshgen.frontend.tracer import nn
from meshgen.frontend.tracer.elementwise import abs_, erf, expm1, maximum, minimum, sigmoid, sign, tanh
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.searching import argmax
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor

enter_traced("Relu=relu HardSwish=hard_silu Softplus=softplus Softsign=soft_sign Mish=mish")
enter_rows({
    "LeakyRelu": lambda call, x: nn.leaky_relu(x, call["alpha"]),
    "Elu": lambda call, x: nn.elu(x, call["alpha"]),
    "Celu": lambda call, x: nn.celu(x, call["alpha"]),
    "PRelu": lambda call, x, slope: where(x < 0, x * slope, x),
    "Selu": lambda call, x: where(x > 0, x, call["alpha"] * expm1(minimum(x, 0))) * call["gamma"],
    "ThresholdedRelu": lambda call, x: where(x > call["alpha"], x, 0),
    "HardSigmoid": lambda call, x: maximum(minimum(x * call["alpha"] + call["beta"], 1), 0),
    "Swish": lambda call, x: x * sigmoid(x * call["alpha"]),
    "Shrink": lambda call, x: where(abs_(x) > call["lambd"], x - like(np.float64(call["bias"]), x) * sign(x), 0),
    "Gelu": lambda call, x: nn.gelu(x) if call["approximate"] == "tanh" else exact_gelu(x),
}, of_tensor)  # fmt: skip


def exact_gelu(x: Operand) -> Tensor:
    x = tensor(x)
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)


def _softmax_rows(call: Call, x: Operand) -> tuple[Tensor, int]:
    """The tensor and the dim of a softmax: before opset 13 all dims from the axis on are one."""
    x = tensor(x)
    if call.version >= 13:
        return x, dim_of(call["axis"], x.ndim)
    axis = dim_of(1 if call["axis"] is None else call["axis"], x.ndim)
    return reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])]), 1


def _over_rows(function: Callable[[Tensor, int], Tensor]) -> Callable[[Call, Operand], Tensor]:
    def over_rows(call: Call, x: Operand) -> Tensor:
        rows, axis = _softmax_rows(call, x)
        return reshape(function(rows, axis), shape_of(x))

    return over_rows


def _hardmax(rows: Tensor, axis: int) -> Tensor:
    return nn.one_hot(argmax(rows, axis), rows.shape[axis], dtype=rows.type.dtype, axis=axis)


enter_rows({"Softmax": nn.softmax, "LogSoftmax": nn.log_softmax, "Hardmax": _hardmax}, _over_rows)

# The activations of recurrent operators, by name: of (x, alpha, beta).
RECURRENT = {
    "sigmoid": lambda x, a, b: sigmoid(x),
    "tanh": lambda x, a, b: tanh(x),
    "relu": lambda x, a, b: nn.relu(x),
    "affine": lambda x, a, b: x * (1.0 if a is None else a) + (0.0 if b is None else b),
    "leakyrelu": lambda x, a, b: nn.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda x, a, b: where(x > (1.0 if a is None else a), x, 0),
    "scaledtanh": lambda x, a, b: (1.0 if a is None else a) * tanh(x * (1.0 if b is None else b)),
    "hardsigmoid": lambda x, a, b: maximum(minimum(x * (0.2 if a is None else a) + (0.5 if b is None else b), 1), 0),
    "elu": lambda x, a, b: nn.elu(x, 1.0 if a is None else a),
    "softsign": lambda x, a, b: nn.soft_sign(x),
    "softplus": lambda x, a, b: nn.softplus(x),
}
