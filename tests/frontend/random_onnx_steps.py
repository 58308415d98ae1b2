"""Arithmetic as steps of random ONNX models: element-wise functions, layers, reductions and branches."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.frontend.onnx_maker import RandomBuilder, step

UNARY = ("Abs", "Neg", "Tanh", "Sigmoid", "Relu", "LeakyRelu", "Elu", "Softplus", "Erf", "Softsign", "HardSigmoid", "HardSwish", "Selu",
         "Gelu", "Sin", "Cos", "Atan", "Mish", "Celu", "Identity")  # fmt: skip
REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
    "ReduceProd",
)


@step
def unary(m: RandomBuilder) -> None:
    m.add(m.one_of(UNARY), m.pick())


@step
def shifted_root(m: RandomBuilder) -> None:
    x = m.add("Add", m.add("Abs", m.pick()), m.constant(np.float32(0.5)))
    m.add(m.one_of(("Sqrt", "Log", "Reciprocal")), x)


@step
def rounding(m: RandomBuilder) -> None:
    m.add(m.one_of(("Floor", "Ceil", "Round", "Sign")), m.pick(exact=True), keeps=True)


@step
def binary(m: RandomBuilder) -> None:
    x = m.pick()
    shape = [1 if m.integer(0, 3) == 0 else size for size in m.values[x].shape][m.integer(0, 1) :]
    y = m.weight(*shape) if m.integer(0, 1) else x
    pair = (x, y) if m.integer(0, 1) else (y, x)
    m.add(m.one_of(("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean")), *pair, keeps=True)


@step
def quotient(m: RandomBuilder) -> None:
    x = m.pick()
    m.add("Div", x, m.add("Add", m.add("Abs", x), m.constant(np.float32(1))))


@step
def comparison(m: RandomBuilder) -> None:
    x = m.pick(exact=True)
    y = m.constant(m.numbers(*m.values[x].shape[-1:]))
    flag = m.add(m.one_of(("Greater", "Less", "GreaterOrEqual", "Equal")), x, y)
    m.add("Where", flag, x, m.add("Neg", x, keeps=True), keeps=True)


@step
def clip(m: RandomBuilder) -> None:
    m.add(
        "Clip",
        m.pick(),
        m.constant(np.float32(-0.75)),
        m.constant(np.float32(1)) if m.integer(0, 1) else "",
        keeps=True,
    )


@step
def power(m: RandomBuilder) -> None:
    m.add("Pow", m.pick(), m.constant(np.float32(m.one_of((2, 3)))))


@step
def remainder(m: RandomBuilder) -> None:
    m.add("Mod", m.pick(exact=True), m.constant(np.float32(m.one_of((0.75, 1.5)))), fmod=1, keeps=True)


@step
def whole_numbers(m: RandomBuilder) -> None:
    x = m.add("Cast", m.pick(exact=True), to=TensorProto.INT64)
    x = m.add(m.one_of(("Add", "Mul", "Sub", "Mod")), x, m.constant(np.int64(m.integer(1, 3))))
    m.add("Cast", x, to=TensorProto.FLOAT, keeps=True)


@step
def product(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    m.add("MatMul", x, m.weight(m.values[x].shape[-1], m.integer(1, 5)))


@step
def batched_product(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    order = [*range(m.values[x].ndim - 2), m.values[x].ndim - 1, m.values[x].ndim - 2]
    m.add("MatMul", x, m.add("Transpose", x, perm=order))


@step
def gemm(m: RandomBuilder) -> None:
    x, n = m.of_rank(2, 2), m.integer(1, 5)
    is_transposed_a = m.integer(0, 1)
    k = m.values[x].shape[1 - is_transposed_a]
    w = m.weight(n, k) if (is_transposed_b := m.integer(0, 1)) else m.weight(k, n)
    m.add(
        "Gemm",
        x,
        w,
        m.weight(n) if m.integer(0, 1) else m.weight(1),
        transA=is_transposed_a,
        transB=is_transposed_b,
        alpha=0.5,
        beta=2.0,
    )


@step
def einsum(m: RandomBuilder) -> None:
    x = m.of_rank(3, 3)
    a, _, c = m.values[x].shape
    m.add("Einsum", x, m.weight(a, c, 3), equation=m.one_of(("abc,acd->abd", "abc,acd->bd", "abc,acd->dab")))


@step
def convolution(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    features, *sizes = m.values[x].shape[1:]
    taps = [min(size, m.integer(1, 3)) for size in sizes]
    group = features if m.integer(0, 2) == 0 else 1
    w = m.weight(group * m.integer(1, 3), features // group, *taps)
    pads = [m.integer(0, 1) for _ in range(2 * len(taps))]
    m.add("Conv", x, w, group=group, pads=pads, strides=[m.integer(1, 2) for _ in taps])


@step
def transposed_convolution(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    features, *sizes = m.values[x].shape[1:]
    w = m.weight(features, m.integer(1, 3), *[m.integer(2, 3) for _ in sizes])
    m.add(
        "ConvTranspose",
        x,
        w,
        strides=[m.integer(1, 2) for _ in sizes],
        pads=[0] * len(sizes) + [m.integer(0, 1) for _ in sizes],
    )


@step
def pool(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    sizes = m.values[x].shape[2:]
    taps = [min(size, m.integer(1, 3)) for size in sizes]
    # with padding in only one dim, the reference is wrong
    pads = [m.integer(0, 1) if min(taps) > 1 else 0] * (2 * len(taps))
    window: dict[str, Any] = {"kernel_shape": taps, "pads": pads, "strides": [m.integer(1, 2) for _ in taps]}
    if m.integer(0, 1):
        m.add("MaxPool", x, keeps=True, **window)
    else:
        m.add("AveragePool", x, count_include_pad=m.integer(0, 1), **window)


@step
def global_pool(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)  # for one spatial dim, the reference of GlobalMaxPool is wrong
    m.add("GlobalAveragePool" if m.values[x].ndim == 3 else m.one_of(("GlobalAveragePool", "GlobalMaxPool")), x)


@step
def reduction(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dims = m.rng.permutation(m.values[x].ndim)[: m.integer(1, m.values[x].ndim)]
    axes = [int(d) - m.values[x].ndim * m.integer(0, 1) for d in dims]
    m.add(m.one_of(REDUCTIONS), x, m.constant(np.array(axes)), keepdims=m.integer(0, 1))


@step
def softmax(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    m.add(m.one_of(("Softmax", "LogSoftmax")), x, axis=m.integer(-m.values[x].ndim, m.values[x].ndim - 1))


@step
def layer_norm(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    size = m.values[x].shape[-1]
    m.add("LayerNormalization", x, m.weight(size), m.weight(size), axis=-1, epsilon=0.1)


@step
def feature_norm(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    c = m.values[x].shape[1]
    if m.integer(0, 1):
        m.add("InstanceNormalization", x, m.weight(c), m.weight(c), epsilon=0.1)
    else:
        spread = m.constant(np.abs(m.numbers(c)) + np.float32(0.5))
        m.add("BatchNormalization", x, m.weight(c), m.weight(c), m.weight(c), spread)


@step
def recurrent(m: RandomBuilder) -> None:
    x = m.of_rank(3, 3)
    op, gates = m.one_of((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    w, r = m.weight(1, gates * 2, m.values[x].shape[2]), m.weight(1, gates * 2, 2)
    m.add(op, x, w, r, results=2, hidden_size=2)


@step
def choice(m: RandomBuilder) -> None:
    """Append a branch on a runtime condition. Both branches capture a value."""
    x, flag = m.pick(), np.array(m.integer(0, 1) > 0)

    def branch(op: str, name: str) -> Any:
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, [x], [name])], name, [], [out])

    branches = branch("Neg", f"then_{len(m.kinds)}"), branch(m.one_of(("Abs", "Relu", "Tanh")), f"else_{len(m.kinds)}")
    condition = m.input(flag) if m.integer(0, 2) else m.constant(flag)
    m.add("If", condition, reads=(x,), then_branch=branches[0], else_branch=branches[1])
