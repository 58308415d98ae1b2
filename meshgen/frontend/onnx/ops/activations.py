"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from meshgen.frontend.onnx.ops.table import Call, dim_of, like, op, shape_of
from meshgen.frontend.tracer import nn
from meshgen.frontend.tracer.elementwise import abs_, erf, expm1, maximum, minimum, sigmoid, sign, tanh
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.searching import argmax
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor

PLAIN: dict[str, Callable[[Operand], Tensor]] = {
    "Relu": nn.relu,
    "HardSwish": nn.hard_silu,
    "Softplus": nn.softplus,
    "Softsign": nn.soft_sign,
    "Mish": nn.mish,
}
"""Of the tensor alone."""
WITH_ALPHA: dict[str, Callable[[Operand, float], Tensor]] = {
    "LeakyRelu": nn.leaky_relu,
    "Elu": nn.elu,
    "Celu": nn.celu,
}
"""Of the tensor and the attribute `alpha`."""


def _without_attributes(function: Callable[[Operand], Tensor], call: Call, x: Operand) -> Tensor:
    return function(x)


def _scaled(function: Callable[[Operand, float], Tensor], call: Call, x: Operand) -> Tensor:
    return function(x, call["alpha"])


for _name, _function in PLAIN.items():
    op(_name)(partial(_without_attributes, _function))
for _name, _function in WITH_ALPHA.items():
    op(_name)(partial(_scaled, _function))


@op("PRelu")
def prelu(call: Call, x: Operand, slope: Operand) -> Tensor:
    x = tensor(x)
    return where(x < 0, x * slope, x)


@op("Selu")
def selu(call: Call, x: Operand) -> Tensor:
    x = tensor(x)
    return where(x > 0, x, call["alpha"] * expm1(minimum(x, 0))) * call["gamma"]


@op("ThresholdedRelu")
def thresholded_relu(call: Call, x: Operand) -> Tensor:
    x = tensor(x)
    return where(x > call["alpha"], x, 0)


@op("HardSigmoid")
def hard_sigmoid(call: Call, x: Operand) -> Tensor:
    return maximum(minimum(tensor(x) * call["alpha"] + call["beta"], 1), 0)


@op("Swish")
def swish(call: Call, x: Operand) -> Tensor:
    x = tensor(x)
    return x * sigmoid(x * call["alpha"])


@op("Shrink")
def shrink(call: Call, x: Operand) -> Tensor:
    x = tensor(x)
    shrunk = x - like(np.float64(call["bias"]), x) * sign(x)
    return where(abs_(x) > call["lambd"], shrunk, 0)


@op("Gelu")
def gelu(call: Call, x: Operand) -> Tensor:
    """Computed in f32, as one form: x / 2 * (1 + erf(x / sqrt 2)), or that of tanh."""
    if call["approximate"] == "tanh":
        return nn.gelu(x)
    return exact_gelu(x)


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


@op("Softmax")
def softmax(call: Call, x: Operand) -> Tensor:
    rows, axis = _softmax_rows(call, x)
    return reshape(nn.softmax(rows, axis), shape_of(x))


@op("LogSoftmax")
def log_softmax(call: Call, x: Operand) -> Tensor:
    rows, axis = _softmax_rows(call, x)
    return reshape(nn.log_softmax(rows, axis), shape_of(x))


@op("Hardmax")
def hardmax(call: Call, x: Operand) -> Tensor:
    rows, axis = _softmax_rows(call, x)
    chosen = nn.one_hot(argmax(rows, axis), rows.shape[axis], dtype=rows.type.dtype, axis=axis)
    return reshape(chosen, shape_of(x))


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
