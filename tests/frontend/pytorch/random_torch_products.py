"""Contractions as steps of random PyTorch modules: matmuls, reductions, softmaxes and losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.frontend.pytorch.torch_maker import RandomBuilder, step

REDUCTIONS = ("sum", "mean", "amax", "amin", "logsumexp", "std", "var")


@step
def product(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    m.add(torch.matmul, x, m.weight(m.at(x).shape[-1], m.integer(1, 5), like=x))


@step
def product_with_vector(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    m.add(m.one_of((torch.matmul, lambda x, y: x @ y + 1)), x, m.weight(m.at(x).shape[-1], like=x))


@step
def linear(m: RandomBuilder) -> None:
    x, n = m.of_rank(1), m.integer(1, 5)
    w = m.weight(n, m.at(x).shape[-1], like=x)
    m.add(F.linear, x, w, *([m.weight(n, like=x)] if m.integer(0, 1) else []))


@step
def batched_product(m: RandomBuilder) -> None:
    m.add(
        m.one_of((lambda x: x @ x.mT, lambda x: x.mT @ x, lambda x: torch.matmul(x, x.transpose(-1, -2) * 0.5))),
        m.of_rank(2),
    )


@step
def bmm(m: RandomBuilder) -> None:
    x = m.of_rank(3, 3)
    b, i, k = m.at(x).shape
    j = m.integer(1, 4)
    y = m.weight(b, k, j, like=x)
    if m.integer(0, 1):
        m.add(torch.bmm, x, y)
    else:
        m.add(lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2), m.weight(b, i, j, like=x), x, y)


@step
def addmm(m: RandomBuilder) -> None:
    x, n = m.of_rank(2, 2), m.integer(1, 4)
    rows, k = m.at(x).shape
    bias = m.weight(*m.one_of(((n,), (rows, n), (rows, 1), ())), like=x)
    m.add(lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), bias, x, m.weight(k, n, like=x))


@step
def outer(m: RandomBuilder) -> None:
    x = m.of_rank(1, 1)
    m.add(
        m.one_of((torch.outer, torch.dot, lambda x, y: torch.linalg.vecdot(x, y))), x, m.weight(*m.at(x).shape, like=x)
    )


@step
def einsum(m: RandomBuilder) -> None:
    x = m.of_rank(3, 3)
    a, _, c = m.at(x).shape
    equation = m.one_of(("abc,acd->abd", "abc,acd->bd", "abc,acd->dab", "abc,aed->bd"))
    m.add(lambda x, y: torch.einsum(equation, x, y), x, m.weight(a, c, 3, like=x))


@step
def einsum_of_one(m: RandomBuilder) -> None:
    equation = m.one_of(("...ab->...ba", "...ab->...a", "ab...->b...", "...a,...a->..."))
    m.add(
        (lambda x: torch.einsum(equation, x, x)) if "," in equation else (lambda x: torch.einsum(equation, x).clone()),
        m.of_rank(2, 4),
    )


@step
def tensordot(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    m.add(
        lambda x, y: torch.tensordot(x, y, dims=([0, -1], [1, 0])),
        x,
        m.weight(m.at(x).shape[-1], m.at(x).shape[0], 2, like=x),
    )


@step
def reduction(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dims = [int(d) for d in m.rng.permutation(m.at(x).ndim)[: m.integer(1, m.at(x).ndim)]]
    name, keepdim = m.one_of(REDUCTIONS), bool(m.integer(0, 1))
    more = {"correction": 0} if name in ("std", "var") else {}
    m.add(lambda x: getattr(x, name)(dims, keepdim=keepdim, **more), x)


@step
def norm_of_rows(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dim, p = m.axis(x), m.one_of((1, 2, float("inf"), 3))
    m.add(
        m.one_of(
            (
                lambda x: torch.linalg.vector_norm(x, p, dim),
                lambda x: F.normalize(x + 0.125, dim=dim),
                lambda x: x.norm(),
            )
        ),
        x,
    )


@step
def reduction_to_number(m: RandomBuilder) -> None:
    functions = (
        torch.sum,
        torch.mean,
        torch.max,
        torch.min,
        lambda x: (x * 0.5).prod(),
        lambda x: x.square().sum().sqrt() + 1,
        lambda x: x.sum(dtype=torch.float64),
    )
    m.add(m.one_of(functions), m.of_rank(0))


@step
def running(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dim = m.axis(x)
    m.add(
        m.one_of(
            (
                lambda x: x.cumsum(dim),
                lambda x: (x * 0.5).cumprod(dim),
                lambda x: x.logcumsumexp(dim),
                lambda x: x.diff(dim=dim, prepend=x.narrow(dim, 0, 1)),
            )
        ),
        x,
    )


@step
def softmax(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dim = m.axis(x)
    m.add(
        m.one_of(
            (
                lambda x: x.softmax(dim),
                lambda x: F.log_softmax(x, dim),
                lambda x: F.softmin(x, dim),
                lambda x: x.softmax(dim, dtype=torch.float32),
            )
        ),
        x,
    )


@step
def masked_softmax(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    mask = m.add(lambda x: torch.ones(x.shape[-2:], dtype=torch.bool).tril(), x)
    m.add(lambda x, mask: x.masked_fill(~mask, float("-inf")).softmax(-1), x, mask)


@step
def loss(m: RandomBuilder) -> None:
    x = m.of_rank(2, 2)
    rows, classes = m.at(x).shape
    if m.integer(0, 1):
        kinds = (
            {},
            {"label_smoothing": 0.25},
            {"reduction": "sum"},
            {"reduction": "none"},
            {"ignore_index": 0, "reduction": "sum"},
        )
        options = m.one_of(kinds)
        m.add(lambda x, y: F.cross_entropy(x, y, **options), x, m.rows(classes, rows))
    else:
        function = m.one_of((F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), lambda x, y: F.cosine_similarity(x + 0.125, y + 0.125)))  # fmt: skip
        m.add(function, x, m.weight(rows, classes, like=x))


@step
def distance(m: RandomBuilder) -> None:
    x = m.of_rank(2, 2, kinds=(torch.float32, torch.float64))
    m.add(lambda x, y: torch.cdist(x, y + 0.125), x, m.weight(3, m.at(x).shape[1], like=x))


@step
def vmapped(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    m.add(lambda x: torch.vmap(lambda row: row * row.sum() + row.flip(0))(x), x)


@step
def made_in_place(m: RandomBuilder) -> None:
    """Append the creation of tensors inside the module."""
    x = m.of_rank(1, exact=True)
    functions = (
        lambda x: torch.zeros_like(x) + x[..., :1], lambda x: torch.full_like(x, 0.5) * x, lambda x: torch.arange(x.shape[-1]) + x,
        lambda x: torch.linspace(0, 1, 5) * x.new_ones(5), lambda x: torch.eye(x.shape[-1], dtype=x.dtype) + x[..., None], lambda x: x.new_tensor([1.0, 2.0]).sum() + x,
        lambda x: torch.ones(x.shape[0])[(...,) + (None,) * (x.ndim - 1)] * x, lambda x: F.one_hot(torch.arange(3), 4) * x.amax().to(torch.int64),
        lambda x: torch.tensor(x.shape).sum() + x, lambda x: torch.full((2,), x.numel()),
    )  # fmt: skip
    m.add(m.one_of(functions), x)
