"""Arithmetic as steps of random PyTorch modules: element-wise functions and type conversions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.frontend.pytorch.torch_maker import FLOATS, INTEGERS, NARROW, RandomBuilder, step

UNARY = (
    "abs",
    "neg",
    "tanh",
    "sigmoid",
    "relu",
    "erf",
    "sin",
    "cos",
    "atan",
    "exp2",
    "square",
    "positive",
    "asinh",
    "sinc",
    "expm1",
    "clone",
)
ACTIVATIONS = ("leaky_relu", "elu", "softplus", "softsign", "hardsigmoid", "hardswish", "selu", "gelu", "silu", "mish", "celu", "relu6",
               "logsigmoid", "hardtanh", "tanhshrink")  # fmt: skip


@step
def unary(m: RandomBuilder) -> None:
    function = getattr(torch, m.one_of(UNARY))
    m.add(function, m.pick(), keeps=function in (torch.abs, torch.neg, torch.relu, torch.positive, torch.clone))


@step
def activation(m: RandomBuilder) -> None:
    m.add(getattr(F, m.one_of(ACTIVATIONS)), m.pick())


@step
def gelu_by_tanh(m: RandomBuilder) -> None:
    m.add(lambda x: F.gelu(x, approximate="tanh"), m.pick())


@step
def gated(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim > 0 and tensor.shape[-1] % 2 == 0)
    m.add(lambda x: F.glu(x, -1), x)


@step
def shifted_root(m: RandomBuilder) -> None:
    function = getattr(torch, m.one_of(("sqrt", "log", "reciprocal", "rsqrt", "log1p", "log2")))
    m.add(lambda x: function(x.abs() + 0.5), m.pick())


@step
def rounding(m: RandomBuilder) -> None:
    functions = (
        torch.floor,
        torch.ceil,
        torch.round,
        torch.sign,
        torch.trunc,
        torch.frac,
        lambda x: F.threshold(x, 0.25, -1.0),
    )
    m.add(m.one_of(functions), m.pick(exact=True), keeps=True)


@step
def binary(m: RandomBuilder) -> None:
    x = m.pick()
    shape = [1 if m.integer(0, 3) == 0 else size for size in m.at(x).shape][m.integer(0, 1) :]
    y = m.weight(*shape, like=x) if m.integer(0, 1) else x
    pair = (x, y) if m.integer(0, 1) else (y, x)
    m.add(getattr(torch, m.one_of(("add", "sub", "mul", "maximum", "minimum"))), *pair, keeps=True)


@step
def promoted(m: RandomBuilder) -> None:
    """Append an operation on two values of any types. Torch promotes them to a common type."""
    x = m.pick(kinds=(*FLOATS, *INTEGERS, torch.bool))
    shape = m.at(x).shape
    y = m.pick(lambda tensor: tensor.shape == shape or tensor.ndim == 0, kinds=(*FLOATS, *INTEGERS, torch.bool))
    m.add(getattr(torch, m.one_of(("add", "mul", "maximum"))), x, y, keeps=True)


@step
def with_number(m: RandomBuilder) -> None:
    scalar: Any = m.one_of((2, -0.5, 3, True, 0.25))
    functions = (
        lambda x: x + scalar,
        lambda x: scalar - x,
        lambda x: x * scalar,
        lambda x: torch.add(x, x, alpha=2),
        lambda x: x / 2,
        lambda x: torch.rsub(x, scalar),
    )
    m.add(m.one_of(functions), m.pick(kinds=(*FLOATS, *INTEGERS)), keeps=True)


@step
def quotient(m: RandomBuilder) -> None:
    m.add(lambda x: x / (x.abs() + 1), m.pick())


@step
def fused_sums(m: RandomBuilder) -> None:
    x = m.pick()
    y = m.weight(*m.at(x).shape, like=x)
    functions = (
        lambda x, y: torch.addcmul(x, x, y, value=0.5),
        lambda x, y: torch.lerp(x, y, 0.25),
        lambda x, y: torch.addcdiv(x, y, x.abs() + 1, value=2),
    )
    m.add(m.one_of(functions), x, y)


@step
def comparison(m: RandomBuilder) -> None:
    x = m.pick(exact=True)
    y = m.weight(*m.at(x).shape[-1:], like=x)
    if not {x, y} <= m.exact:
        return
    flag = m.add(getattr(torch, m.one_of(("gt", "lt", "ge", "eq", "ne"))), x, y)
    functions = (
        lambda flag, x: torch.where(flag, x, -x),
        lambda flag, x: x.masked_fill(flag, 0.5),
        lambda flag, x: torch.where(flag, x, 1.5),
    )
    m.add(m.one_of(functions), flag, x, keeps=True)


@step
def clamp(m: RandomBuilder) -> None:
    functions = (
        lambda x: x.clamp(-0.75, 1.0),
        lambda x: x.clamp(min=0.25),
        lambda x: x.clamp_max(0.5),
    )
    m.add(m.one_of(functions), m.pick(), keeps=True)


@step
def power(m: RandomBuilder) -> None:
    exponent = m.one_of((2, 3, 2.0, -1))
    m.add(lambda x: (x.abs() + 0.5) ** exponent if exponent == -1 else x**exponent, m.pick())


@step
def remainder(m: RandomBuilder) -> None:
    function, by = m.one_of((torch.fmod, torch.remainder)), m.one_of((0.75, 1.5, -1.25))
    m.add(lambda x: function(x, by), m.pick(exact=True), keeps=True)


@step
def whole_numbers(m: RandomBuilder) -> None:
    x = m.add(lambda x: (x * 4).to(torch.int64), m.pick(exact=True))
    by = m.integer(2, 5)
    functions = (
        lambda x: x // by, lambda x: x % by, lambda x: torch.div(x, by, rounding_mode="trunc"), lambda x: x << 1, lambda x: x >> 1,
        lambda x: x & by, lambda x: x ^ by, lambda x: ~x, lambda x: -x, lambda x: x**2, lambda x: torch.bitwise_or(x, by), lambda x: x.clamp(-by, by),
    )  # fmt: skip
    m.add(m.one_of(functions), x)


@step
def whole_sums(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=(*INTEGERS, torch.bool))
    dim = m.axis(x)
    functions = (lambda x: x.sum(dim), lambda x: x.cumsum(dim), lambda x: x.sum(), lambda x: x.any(dim), lambda x: x.all(dim, keepdim=True), lambda x: x.amax(dim), lambda x: (x != 0).sum(dim, dtype=torch.int32), lambda x: x.float().mean(dim), lambda x: torch.count_nonzero(x, dim))  # fmt: skip
    m.add(m.one_of(functions), x)


@step
def whole_quotient(m: RandomBuilder) -> None:
    m.add(lambda x: x / 4, m.pick(kinds=INTEGERS), keeps=True)


@step
def logic(m: RandomBuilder) -> None:
    x = m.add(lambda x: x > 0, m.pick(exact=True))
    y = m.add(m.one_of((torch.logical_not, lambda x: x ^ x.flip(-1) if x.ndim else ~x)), x)
    m.add(m.one_of((torch.logical_and, torch.logical_or, torch.logical_xor, lambda x, y: x & ~y, torch.eq)), x, y)


@step
def conversion(m: RandomBuilder) -> None:
    """Append a conversion to another type. A 16-bit value is converted back to f32, because its roundings would
    accumulate.
    """
    x = m.pick(kinds=(*FLOATS, *INTEGERS, torch.bool))
    kind = torch.float32 if m.at(x).dtype in NARROW else m.one_of((*FLOATS, torch.bfloat16))
    m.add(m.one_of((lambda x: x.to(kind), lambda x: x.type(kind))), x, keeps=kind not in NARROW)


@step
def complex_numbers(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=(torch.float32,))
    z = m.add(lambda x: torch.complex(x, x.flip(-1)), x)
    z = m.add(
        m.one_of(
            (
                lambda z: z * z,
                lambda z: z.conj() * 2,
                lambda z: z / (z.abs() + 1),
                lambda z: torch.exp(z * 0.25j),
                lambda z: z + 1j,
                lambda z: z.sum(-1),
            )
        ),
        z,
    )
    m.add(
        m.one_of(
            (
                torch.view_as_real,
                torch.real,
                torch.imag,
                torch.abs,
                lambda z: z.resolve_conj(),
                lambda z: torch.view_as_real(z.resolve_conj())[..., 1],
            )
        ),
        z,
    )


@step
def fourier(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=(torch.float32,))
    m.add(
        m.one_of(
            (
                lambda x: torch.fft.rfft(x).abs(),
                lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
                lambda x: torch.view_as_real(torch.fft.fft(x, dim=0)),
            )
        ),
        x,
    )
