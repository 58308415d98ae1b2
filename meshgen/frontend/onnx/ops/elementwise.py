"""Element-wise operators with NumPy's broadcasting, activations, and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, array_of, dim_of, enter_rows, enter_traced, op
from meshgen.frontend.tracer import elementwise, logic, nn, rounding
from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.elementwise import abs_, add, maximum, minimum, sigmoid, sign, tanh
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.searching import argmax
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_float, is_inexact

enter_traced(
    "Abs=abs Neg=negative Sign=sign Reciprocal=reciprocal Exp=exp Log=log Sqrt=sqrt Erf=erf Tanh=tanh Sigmoid=sigmoid Sin=sin Cos=cos Tan=tan Asin=asin "
    "Acos=acos Atan=atan Sinh=sinh Cosh=cosh Asinh=asinh Acosh=acosh Atanh=atanh Floor=floor Ceil=ceil Round=round IsNaN=isnan Add=add Sub=subtract "
    "Mul=multiply Equal=equal Less=less LessOrEqual=less_equal Greater=greater GreaterOrEqual=greater_equal And=logical_and Or=logical_or "
    "Xor=logical_xor Not=logical_not Where=where BitwiseAnd=bitwise_and BitwiseOr=bitwise_or BitwiseXor=bitwise_xor BitwiseNot=invert "
    "Relu=relu HardSwish=hard_silu Softplus=softplus Softsign=soft_sign Mish=mish"
)
enter_rows({
    # ONNX's division of integers truncates toward zero.
    "Div": lambda call, x, y: elementwise.divide(x, y) if is_inexact(x.type.dtype) else elementwise.binary("divide", x, y),
    "Mod": lambda call, x, y: rounding.fmod(x, y) if call["fmod"] else rounding.remainder(x, y),
    "BitShift": lambda call, x, y: logic.left_shift(x, y) if call["direction"] == "LEFT" else logic.right_shift(x, y),
    "Max": lambda call, *operands: _fold(maximum, call, *operands),
    "Min": lambda call, *operands: _fold(minimum, call, *operands),
    "Sum": lambda call, *operands: _fold(add, call, *operands),
    "Mean": lambda call, *operands: _fold(add, call, *operands) / len(operands),
    "LeakyRelu": lambda call, x: nn.leaky_relu(x, call["alpha"]),
    "Elu": lambda call, x: nn.elu(x, call["alpha"]),
    "Celu": lambda call, x: nn.celu(x, call["alpha"]),
    "PRelu": lambda call, x, slope: where(x < 0, x * slope, x),
    "Selu": lambda call, x: nn.elu(x, call["alpha"]) * call["gamma"],
    "ThresholdedRelu": lambda call, x: where(x > call["alpha"], x, 0),
    "HardSigmoid": lambda call, x: maximum(minimum(x * call["alpha"] + call["beta"], 1), 0),
    "Swish": lambda call, x: x * sigmoid(x * call["alpha"]),
    "Shrink": lambda call, x: where(abs_(x) > call["lambd"], x - tensor(call["bias"], x.type.dtype) * sign(x), 0),
    "Gelu": lambda call, x: nn.gelu(x, call["approximate"] == "tanh"),
})  # fmt: skip
enter_rows({
    "Gelu": lambda call, x: nn.gelu(x, False),
    "BiasGelu": lambda call, x, bias: nn.gelu(x + bias, False),
    "FastGelu": lambda call, x, bias=None: nn.gelu(x if bias is None else x + bias),
    "QuickGelu": lambda call, x: x * sigmoid(x * (1.702 if call["alpha"] is None else call["alpha"])),
}, domain=MICROSOFT)  # fmt: skip


def _fold(function: Callable[[Tensor, Tensor], Tensor], call: Call, *operands: Tensor) -> Tensor:
    """Combine two or more operands from left to right with `function`. Before opset 8, their shapes must be equal."""
    shapes = sorted({operand.shape for operand in operands})
    if call.version < 8 and len(shapes) > 1:
        listed = ", ".join(str(list(operand)) for operand in shapes)
        refuse(f"operands must have one shape before opset 8, but have {listed}")
    return reduce(function, operands)


@op("Dropout", plain=(1, 2))
def dropout(call: Call, x: Tensor, ratio: Any = None, is_training: Any = None) -> Any:
    """Import dropout in inference mode, which keeps all elements. Raises ProgramError MG0104 for training mode."""
    has_zero_ratio = isinstance(ratio, np.ndarray) and not float(ratio.reshape(()))
    if not has_zero_ratio and is_training is not None and bool(array_of(is_training, "training_mode", "decides whether elements are dropped")):  # fmt: skip
        refuse("dropout in training draws new random numbers in each step, which a module does not", "export the model for inference")  # fmt: skip
    mask = full(x.shape, 1, x.type.dtype if call.version < 10 else "i1")
    return x, mask


@op("Pow", plain=(1,))
def power(call: Call, x: Tensor, y: Any) -> Tensor:
    """Raise `x` to the power `y`, in the dtype of `x`."""
    if isinstance(y, np.ndarray) and y.size == 1 and not y.ndim and float(y) in (2.0, 3.0, 4.0):
        return elementwise.power(x, int(y))
    exponent, kind = tensor(y), x.type.dtype
    wide = exponent.type.dtype if is_float(exponent.type.dtype) and not is_float(kind) else kind
    return elementwise.power(x.astype(wide), exponent.astype(wide)).astype(kind)


@op("IsInf")
def is_infinite(call: Call, x: Tensor) -> Tensor:
    signs = [logic.isposinf(x)] * bool(call["detect_positive"]) + [logic.isneginf(x)] * bool(call["detect_negative"])
    return reduce(logic.logical_or, signs) if signs else logic.logical_and(logic.isinf(x), np.zeros((), np.bool_))


@op("Clip")
def clip(call: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else maximum(x, low.astype(x.type.dtype))
    return x if high is None else minimum(x, high.astype(x.type.dtype))


def _over_rows(function: Callable[[Tensor, int], Tensor]) -> Callable[[Call, Tensor], Tensor]:
    """Adapt `function(x, dim)` to the operator's attribute `axis`.

    From opset 13 on, `axis` is the dim. Before, all dims from `axis` on are flattened into one dim.
    """

    def over_rows(call: Call, x: Tensor) -> Tensor:
        if call.version >= 13:
            return function(x, dim_of(call["axis"], x.ndim))
        axis = dim_of(1 if call["axis"] is None else call["axis"], x.ndim)
        return function(x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), 1).reshape(x.shape)

    return over_rows


def _hardmax(rows: Tensor, axis: int) -> Tensor:
    return nn.one_hot(argmax(rows, axis), rows.shape[axis], dtype=rows.type.dtype, axis=axis)


enter_rows({"Softmax": nn.softmax, "LogSoftmax": nn.log_softmax, "Hardmax": _hardmax}, _over_rows)

# Activations of recurrent operators by name: (function of x and parameters, default values of the parameters).
RECURRENT: dict[str, tuple[Callable[..., Tensor], list[float]]] = {
    "sigmoid": (sigmoid, []),
    "tanh": (tanh, []),
    "relu": (nn.relu, []),
    "softsign": (nn.soft_sign, []),
    "softplus": (nn.softplus, []),
    "affine": (lambda x, a, b: x * a + b, [1.0, 0.0]),
    "leakyrelu": (nn.leaky_relu, [0.01]),
    "thresholdedrelu": (lambda x, a: where(x > a, x, 0), [1.0]),
    "scaledtanh": (lambda x, a, b: a * tanh(x * b), [1.0, 1.0]),
    "hardsigmoid": (lambda x, a, b: maximum(minimum(x * a + b, 1), 0), [0.2, 0.5]),
    "elu": (nn.elu, [1.0]),
}
