"""Data movement as steps of random PyTorch modules: reshapes, slices and concatenations."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.frontend.pytorch.torch_maker import FLOATS, INTEGERS, RandomBuilder, step

ANY = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)


@step
def reshape(m: RandomBuilder) -> None:
    x = m.of_rank(0, kinds=ANY)
    size = m.at(x).numel()
    first = m.one_of([d for d in range(1, size + 1) if size % d == 0])
    shape = m.one_of(((first, -1), (-1, first), (-1,), (1, first, -1)))
    m.add(
        m.one_of((lambda x: x.reshape(shape), lambda x: x.contiguous().view(shape), lambda x: x.clone().view(shape))),
        x,
        keeps=True,
    )


@step
def flatten(m: RandomBuilder) -> None:
    x = m.of_rank(2, kinds=ANY)
    first = m.integer(0, m.at(x).ndim - 1)
    m.add(m.one_of((lambda x: x.flatten(first), lambda x: x.ravel(), lambda x: x.flatten(0, first))), x, keeps=True)


@step
def unflatten(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim > 0 and tensor.shape[-1] % 2 == 0 and tensor.numel() > 0, kinds=ANY)
    m.add(m.one_of((lambda x: x.unflatten(-1, (2, -1)), lambda x: x.view(*x.shape[:-1], -1, 2))), x, keeps=True)


@step
def transpose(m: RandomBuilder) -> None:
    x = m.of_rank(2, kinds=ANY)
    order = [int(d) for d in m.rng.permutation(m.at(x).ndim)]
    first_dim, second_dim = m.axis(x), m.axis(x)
    m.add(
        m.one_of(
            (
                lambda x: x.permute(order),
                lambda x: x.transpose(first_dim, second_dim),
                lambda x: x.movedim(first_dim, second_dim),
                lambda x: x.mT,
            )
        ),
        x,
        keeps=True,
    )


@step
def squeeze(m: RandomBuilder) -> None:
    x = m.of_rank(0, 4, kinds=ANY)
    dim = m.integer(-1, m.at(x).ndim)
    wide = m.add(m.one_of((lambda x: x.unsqueeze(dim), lambda x: x[None], lambda x: x[..., None])), x, keeps=True)
    if m.integer(0, 1):
        at = m.axis(wide)
        m.add(
            m.one_of(
                (lambda x: x.squeeze(), lambda x: x.squeeze(at), lambda x: x.squeeze([0, -1] if x.ndim > 1 else [0]))
            ),
            wide,
            keeps=True,
        )


@step
def expand(m: RandomBuilder) -> None:
    x = m.of_rank(0, 4, kinds=ANY)
    times, dim = m.integer(2, 3), m.integer(0, max(0, m.at(x).ndim - 1))
    functions = (
        lambda x: x.expand(times, *x.shape),
        lambda x: x[..., None].expand(*x.shape, times),
        lambda x: x.repeat(times, *(1 for _ in x.shape)),
        lambda x: x.tile(times),
        lambda x: x.repeat_interleave(times, dim) if x.ndim else x,
        lambda x: torch.broadcast_to(x, (1, times, *x.shape)),
    )
    m.add(m.one_of(functions), x, keeps=True)


@step
def flip(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=ANY)
    dim, by = m.axis(x), m.integer(-7, 7)
    m.add(
        m.one_of(
            (
                lambda x: x.flip(dim),
                lambda x: x.roll(by, dim),
                lambda x: x.flip(0, -1) if x.ndim > 1 else x.flip(0),
                lambda x: x.roll(by),
                lambda x: x.rot90() if x.ndim > 1 else x,
            )
        ),
        x,
        keeps=True,
    )


@step
def pad(m: RandomBuilder) -> None:
    x = m.of_rank(1, 4)
    mode = m.one_of(("constant", "constant", "reflect", "replicate", "circular"))
    dims = m.integer(1, m.at(x).ndim)
    if mode == "constant":
        widths = [m.integer(-1 if m.at(x).shape[-1 - d // 2] > 2 else 0, 2) for d in range(2 * dims)]
        m.add(lambda x: F.pad(x, widths, value=0.5), x, keeps=True)
    else:
        widths = [m.integer(0, min(2, size - 1)) for size in (m.at(x).shape[-1],) * 2]
        m.add(lambda x: F.pad(x, widths, mode=mode), x, keeps=True)


@step
def cut(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=ANY)
    dim = m.axis(x)
    size = m.at(x).shape[dim]
    start, by = m.integer(-size, size - 1), m.integer(1, 3)
    at = (slice(None),) * (dim % m.at(x).ndim)
    functions = (
        lambda x: x[(*at, slice(start, None, by))],
        lambda x: x.narrow(dim, size // 2, size - size // 2),
        lambda x: x.select(dim, start),
        lambda x: x[..., start % x.shape[-1] :],
        lambda x: x[(*at, slice(0, size + 3, by))],
        lambda x: x[(*at, slice(None, -1))] if size > 1 else x,
    )
    m.add(m.one_of(functions), x, keeps=True)


@step
def join(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    dim = m.axis(x)
    shape = list(m.at(x).shape)
    if m.integer(0, 1):
        shape[dim] = m.integer(1, 3)
        m.add(lambda x, y: torch.cat([x, y, x], dim), x, m.weight(*shape, like=x), keeps=True)
    else:
        m.add(
            m.one_of(
                (
                    lambda x, y: torch.stack([x, y], dim),
                    lambda x, y: torch.hstack([x, y]),
                    lambda x, y: torch.vstack([x, y]),
                )
            ),
            x,
            m.weight(*shape, like=x),
            keeps=True,
        )


@step
def split(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim > 0 and max(tensor.shape) > 1 and tensor.numel() > 0, kinds=ANY)
    dim = max(range(m.at(x).ndim), key=lambda d: m.at(x).shape[d])
    size = m.at(x).shape[dim]
    first = m.integer(1, size - 1)
    functions = (
        lambda x: x.split([first, size - first], dim),
        lambda x: x.split(first, dim),
        lambda x: x.chunk(2, dim),
        lambda x: x.tensor_split(3, dim),
        lambda x: x.tensor_split([first], dim),
        lambda x: x.unbind(dim),
    )
    m.add(m.one_of(functions), x, keeps=True)
