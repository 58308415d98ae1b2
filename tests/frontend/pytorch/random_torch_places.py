"""Indexing as steps of random PyTorch modules: gathers, scatters, sorts, and in-place writes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.frontend.pytorch.torch_maker import FLOATS, INTEGERS, RandomBuilder, step
from tests.frontend.random_models import CannotBuild

ANY = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)


@step
def gather(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=ANY)
    dim = m.axis(x)
    rows = m.rows(m.at(x).shape[dim], *m.at(x).shape)
    m.add(
        m.one_of((lambda x, rows: x.gather(dim, rows), lambda x, rows: torch.take_along_dim(x, rows, dim))),
        x,
        rows,
        keeps=True,
    )


@step
def index_select(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=ANY)
    dim = m.axis(x)
    m.add(lambda x, rows: x.index_select(dim, rows), x, m.rows(m.at(x).shape[dim], 3), keeps=True)


@step
def advanced_index(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=ANY)
    size, last = m.at(x).shape[0], m.at(x).shape[-1]
    shape = m.one_of(((3,), (2, 2), ()))
    rows = m.rows(size, *shape, low=-size)
    if m.at(x).ndim == 1:
        m.add(m.one_of((lambda x, rows: x[rows], lambda x, rows: x.take(rows))), x, rows, keeps=True)
        return
    columns = m.rows(last, *shape)
    functions = (
        lambda x, r, c: x[r] + c.sum().to(x.dtype) * 0,
        lambda x, r, c: x[r, ..., c],
        lambda x, r, c: x[..., c],
        lambda x, r, c: x[r, ..., 0],
        lambda x, r, c: x[r][..., c],
        lambda x, r, c: x[:, None][r, :, ..., c],
        lambda x, r, c: x[r, None],
        lambda x, r, c: x[0][..., c],
    )
    m.add(m.one_of(functions), x, rows, columns, keeps=True)


@step
def scatter(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dim, shape = m.axis(x), m.at(x).shape
    order = m.input(torch.from_numpy(m.rng.random(shape)).argsort(dim))
    y = m.weight(*shape, like=x)
    functions = (
        lambda x, i, y: x.scatter(dim, i, y),
        lambda x, i, y: x.scatter_add(dim, i, y),
        lambda x, i, y: x.scatter(dim, i[..., :1], 0.25),
        *(lambda x, i, y, kind=kind: x.scatter_reduce(dim, i, y, kind) for kind in ("sum", "amax", "mean", "prod")),
    )
    m.add(m.one_of(functions), x, order, y, keeps=True)


@step
def scatter_repeated(m: RandomBuilder) -> None:
    """Append a scatter that writes some rows repeatedly."""
    x = m.of_rank(1)
    dim, shape = m.axis(x), list(m.at(x).shape)
    size, shape[dim] = shape[dim], 4
    y, rows = m.weight(*shape, like=x), m.rows(size, 4)
    functions = (
        lambda x, i, y: x.index_add(dim, i, y, alpha=0.5),
        lambda x, i, y: x.index_reduce(dim, i, y, "amax"),
        lambda x, i, y: x.index_fill(dim, i, 0.25),
    )
    m.add(m.one_of(functions), x, rows, y, keeps=True)


@step
def index_put(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    size, *rest = m.at(x).shape
    rows = m.input(torch.from_numpy(m.rng.permutation(size)[: max(1, size // 2)]))
    y = m.weight(m.at(rows).numel(), *rest, like=x)
    functions = (
        lambda x, r, y: x.index_put((r,), y),
        lambda x, r, y: x.index_put((r,), y, accumulate=True),
        lambda x, r, y: x.index_copy(0, r, y),
    )
    m.add(m.one_of(functions), x, rows, y, keeps=True)


@step
def slice_scatter(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    size, *rest = m.at(x).shape
    start = m.integer(0, size - 1)
    y = m.weight(size - start, *rest, like=x)
    functions = (
        lambda x, y: torch.slice_scatter(x, y, 0, start),
        lambda x, y: torch.select_scatter(x, y[0], 0, start),
        lambda x, y: x.diagonal_scatter(torch.zeros_like(x.diagonal())) if x.ndim > 1 else x,
    )
    m.add(m.one_of(functions), x, y, keeps=True)


@step
def largest(m: RandomBuilder) -> None:
    """Append a sort or a selection of the largest among distinct numbers, because packages order equal numbers
    differently.
    """
    x = m.distinct(*(m.integer(1, 6) for _ in range(m.integer(1, 3))))
    dim, up = m.axis(x), bool(m.integer(0, 1))
    k = m.integer(1, m.at(x).shape[dim])
    functions = (
        lambda x: x.topk(k, dim, up),
        lambda x: x.sort(dim, up),
        lambda x: x.argsort(dim, up),
        lambda x: x.max(dim),
        lambda x: x.min(dim, keepdim=True),
        lambda x: x.kthvalue(k, dim),
        lambda x: x.median(dim),
        lambda x: x.cummax(dim),
        lambda x: x.argmax(),
        lambda x: x.aminmax(dim=dim),
    )
    m.add(m.one_of(functions), x, keeps=True)


@step
def first_of_equal(m: RandomBuilder) -> None:
    """Append an argmax, argmin or sort for which torch specifies the order of equal numbers."""
    x = m.of_rank(1, exact=True)
    dim = m.axis(x)
    m.add(
        m.one_of(
            (
                lambda x: x.argmax(dim),
                lambda x: x.argmin(dim, keepdim=True),
                lambda x: x.sort(dim, stable=True),
                lambda x: x.argsort(dim, descending=True, stable=True),
                lambda x: torch.sort(x.flatten())[0],
            )
        ),
        x,
        keeps=True,
    )


@step
def triangle(m: RandomBuilder) -> None:
    x, k = m.of_rank(2, kinds=ANY), m.integer(-2, 2)
    m.add(
        m.one_of((lambda x: x.tril(k), lambda x: x.triu(k), lambda x: x.diagonal(k), lambda x: x.diagonal(0, -1, 0))),
        x,
        keeps=True,
    )


@step
def diagonal(m: RandomBuilder) -> None:
    m.add(
        m.one_of(
            (
                lambda x: torch.diag_embed(x),
                lambda x: torch.block_diag(x[:1], x) if x.ndim < 3 else x,
                lambda x: x.unfold(-1, 1, 1),
                lambda x: x.unfold(0, min(2, x.shape[0]), 1),
            )
        ),
        m.of_rank(1, 4),
        keeps=True,
    )


@step
def meshgrid(m: RandomBuilder) -> None:
    x = m.of_rank(1, 1)
    indexing = m.one_of(("ij", "xy"))
    m.add(lambda x, y: torch.meshgrid(x, y, indexing=indexing), x, m.weight(3, like=x), keeps=True)


@step
def shuffle(m: RandomBuilder) -> None:
    x = m.of_rank(4, 4)
    _, c, h, w = m.at(x).shape
    if c % 4 == 0:
        m.add(lambda x: F.pixel_shuffle(x, 2), x, keeps=True)
    elif h % 2 == 0 and w % 2 == 0:
        m.add(lambda x: F.pixel_unshuffle(x, 2), x, keeps=True)
    else:
        m.add(lambda x: F.channel_shuffle(x, c), x, keeps=True)


@step
def search(m: RandomBuilder) -> None:
    x = m.of_rank(1, exact=True, kinds=(torch.float32, torch.float64))
    edges = torch.tensor([-1.25, -0.5, 0.0, 0.75])
    right = bool(m.integer(0, 1))
    m.add(
        m.one_of(
            (
                lambda x: torch.bucketize(x, edges.to(x.dtype), right=right),
                lambda x: torch.searchsorted(edges.to(x.dtype), x.contiguous(), right=right),
                lambda x: torch.isin(x, edges.to(x.dtype)),
            )
        ),
        x,
    )


@step
def written_clone(m: RandomBuilder) -> None:
    """Append a clone and in-place writes to it, also through its views."""
    x = m.of_rank(1)
    by = m.integer(1, 2)

    def rows(x: Any) -> Any:
        x = x.clone()
        x[::by] += 0.5
        return x

    def column(x: Any) -> Any:
        x = x.clone()
        view = x.transpose(0, -1)
        view[-1].mul_(2)
        view[:1].copy_(view[-1:])
        return x

    def flat(x: Any) -> Any:
        x = x.contiguous().clone()
        x.view(-1)[: x.numel() // 2].fill_(0.25)
        return x, x.view(-1).neg_()

    def masked(x: Any) -> Any:
        y = x.clone()
        y[x > 0] = 0.5
        y.masked_fill_(x < -1, -1.0)
        return y

    def diagonal(x: Any) -> Any:
        x = x.clone().reshape(-1, x.shape[-1])
        x.diagonal().zero_()
        return x

    functions = [rows, column, flat, diagonal, *([masked] if x in m.exact else [])]
    m.add(m.one_of(functions), x, keeps=True)


@step
def written_view(m: RandomBuilder) -> None:
    """Append an in-place write to a value, which changes all values that share its memory, including arguments and
    buffers.
    """
    x = m.of_rank(1)
    if x in m.start and m.integer(0, 2):
        raise CannotBuild
    functions = (
        lambda x: x.add_(0.5),
        lambda x: x[:1].mul_(2),
        lambda x: x.select(-1, 0).sub_(1),
        lambda x: x.clamp_(-1, 1),
        lambda x: x.zero_() if x.ndim > 2 else x.neg_(),
        lambda x: x.transpose(0, -1)[0].fill_(0.75),
        lambda x: x[..., ::2].neg_(),
    )
    m.change(m.one_of(functions), x)


@step
def written_slice(m: RandomBuilder) -> None:
    """Append an in-place write of one value to a slice of another."""
    x = m.of_rank(1)
    if x in m.start and m.integer(0, 2):
        raise CannotBuild
    y = m.weight(*m.at(x).shape[1:], like=x)

    def assign(x: Any, y: Any) -> Any:
        x[-1] = y
        return x[-1]

    m.change(
        m.one_of(
            (
                assign,
                lambda x, y: x[0].add_(y),
                lambda x, y: x.copy_(y),
                lambda x, y: x[::2].lerp_(y.expand_as(x[::2]), 0.5),
            )
        ),
        x,
        y,
    )
