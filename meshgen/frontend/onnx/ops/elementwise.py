"""Element-wise arithmetic, comparisons and logic, with ONNX's broadcasting: operands of one type, as NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Call, array_of, enter_rows, enter_traced, kind_of, like, op, shape_of
from meshgen.frontend.tracer import elementwise, logic, rounding
from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import is_float, is_inexact

enter_traced(
    "Abs=abs Neg=negative Sign=sign Reciprocal=reciprocal Exp=exp Log=log Sqrt=sqrt Erf=erf Tanh=tanh Sigmoid=sigmoid Sin=sin Cos=cos Tan=tan Asin=asin "
    "Acos=acos Atan=atan Sinh=sinh Cosh=cosh Asinh=asinh Acosh=acosh Atanh=atanh Floor=floor Ceil=ceil Round=round IsNaN=isnan Add=add Sub=subtract "
    "Mul=multiply Equal=equal Less=less LessOrEqual=less_equal Greater=greater GreaterOrEqual=greater_equal And=logical_and Or=logical_or "
    "Xor=logical_xor Not=logical_not Where=where BitwiseAnd=bitwise_and BitwiseOr=bitwise_or BitwiseXor=bitwise_xor BitwiseNot=invert"
)
enter_rows({
    "Identity": lambda call, x: [x],
    "Div": lambda call, x, y: elementwise.divide(x, y) if is_inexact(kind_of(x)) else elementwise.binary("divide", x, y),  # towards zero
    "Mod": lambda call, x, y: rounding.fmod(x, y) if call["fmod"] else rounding.remainder(x, y),
    "BitShift": lambda call, x, y: logic.left_shift(x, y) if call["direction"] == "LEFT" else logic.right_shift(x, y),
    "Max": lambda call, *operands: _fold(elementwise.maximum, call, *operands),
    "Min": lambda call, *operands: _fold(elementwise.minimum, call, *operands),
    "Sum": lambda call, *operands: _fold(elementwise.add, call, *operands),
    "Mean": lambda call, *operands: _fold(elementwise.add, call, *operands) / len(operands),
})  # fmt: skip


@op("Dropout")
def dropout(call: Call, x: Operand, ratio: Any = None, is_training: Any = None) -> Any:
    """That of inference, which keeps everything. Raises ProgramError MG0104 for that of training."""
    is_kept = isinstance(ratio, np.ndarray) and not float(ratio.reshape(()))
    if (
        not is_kept
        and is_training is not None
        and bool(array_of(is_training, "training_mode", "decides whether elements are dropped"))
    ):
        refuse("dropout in training draws new random numbers in each step, which a module does not", "export the model for inference")  # fmt: skip
    mask = full(shape_of(x), 1, kind_of(x) if call.version < 10 else "i1")
    return (x, mask)[: max(call.results, 1)]


@op("Pow")
def power(call: Call, x: Operand, y: Operand) -> Tensor:
    """Of the type of the base; the exponent may have another."""
    if isinstance(y, np.ndarray) and y.size == 1 and not y.ndim and float(y) in (2.0, 3.0, 4.0):
        return elementwise.power(tensor(x), int(y))
    wide = kind_of(y) if is_float(kind_of(y)) and not is_float(kind_of(x)) else kind_of(x)
    return convert(elementwise.power(tensor(x, wide), tensor(y, wide)), kind_of(x))


@op("IsInf")
def is_infinite(call: Call, x: Operand) -> Tensor:
    signs = [logic.isposinf(x)] * bool(call["detect_positive"]) + [logic.isneginf(x)] * bool(call["detect_negative"])
    return reduce(logic.logical_or, signs) if signs else logic.logical_and(logic.isinf(x), np.zeros((), np.bool_))


@op("Clip")
def clip(call: Call, x: Operand, low: Operand = None, high: Operand = None) -> Tensor:
    x = x if low is None else elementwise.maximum(x, like(low, x))
    return x if high is None else elementwise.minimum(x, like(high, x))


def _fold(function: Callable[[Operand, Operand], Operand], call: Call, *operands: Operand) -> Operand:
    """Combine operands, which broadcast from opset 8 on."""
    shapes = {shape_of(each) for each in operands}
    if call.version < 8 and len(shapes) > 1:
        refuse(
            f"operands must have one shape before opset 8, but have {', '.join(str(list(each)) for each in sorted(shapes))}"
        )
    return reduce(function, operands)
