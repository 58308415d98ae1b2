"""PyTorch modules written like their JAX counterparts: `experts.py`, `state_space.py` and the U-Net of
`convolutional.py`.

Sizes and shardings are also equal, so that the plans can be compared. Linear layers have weights [out, in].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

CHOSEN = 2  # experts per token
TAPS = 4  # taps of the convolution over time


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape))


def _heads(x: Tensor, layer: nn.Linear, size: int) -> Tensor:
    """Apply `layer` to rows x[b, l, w], and return the result as [b, heads, l, size]."""
    return layer(x).unflatten(-1, (-1, size)).transpose(1, 2)


class Rotated(nn.Module):
    """Causal attention with rotary positions. Keys and values have fewer heads than queries."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.head = width // heads
        self.q, self.o = nn.Linear(width, width, False), nn.Linear(width, width, False)
        self.k, self.v = nn.Linear(width, groups * self.head, False), nn.Linear(width, groups * self.head, False)

    def forward(self, x: Tensor) -> Tensor:
        half = self.head // 2
        rates = 1e4 ** (-torch.arange(half, device=x.device) / half)
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * rates
        sin, cos = angles.sin(), angles.cos()

        def turned(y: Tensor) -> Tensor:
            first, second = y.chunk(2, -1)
            return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

        q, k, v = (_heads(x, layer, self.head) for layer in (self.q, self.k, self.v))
        out = functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).flatten(2))


class Experts(nn.Module):
    """A layer of experts. If the router spread tokens evenly, each expert would get an equal share of a row's tokens.
    An expert accepts twice this share; later tokens skip it.
    """

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, False)
        self.gate, self.up = _parameter(experts, width, hidden), _parameter(experts, width, hidden)
        self.down = _parameter(experts, hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        experts = self.gate.shape[0]
        room = -(-2 * CHOSEN * x.shape[1] // experts)
        weights, chosen = self.router(x).softmax(-1).topk(CHOSEN)
        taken = functional.one_hot(chosen, experts).to(x.dtype)  # b l c e
        flat = taken.flatten(1, 2)
        slot = (flat.cumsum(1) * flat - 1).view_as(taken).long()
        sent = (slot[..., None] == torch.arange(room, device=x.device)).to(x.dtype)  # b l c e r
        expert_inputs = torch.einsum("blcer,blw->berw", sent, x)
        gate = functional.silu(torch.einsum("berw,ewh->berh", expert_inputs, self.gate))
        outputs = torch.einsum(
            "berh,ehw->berw", gate * torch.einsum("berw,ewh->berh", expert_inputs, self.up), self.down
        )
        return torch.einsum("blcer,blc,berw->blw", sent, weights / weights.sum(-1, keepdim=True), outputs)


class Mixtral(nn.Module):
    """A language model in which each token is routed to the best two of eight experts."""

    def __init__(self, layers: int, width: int, hidden: int, words: int, heads: int, groups: int) -> None:
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(words, width), nn.RMSNorm(width), nn.Linear(width, words, False)  # fmt: skip
        self.attention = nn.ModuleList(Rotated(width, heads, groups) for _ in range(layers))
        self.experts = nn.ModuleList(Experts(width, hidden, 8) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer, (attention, experts) in enumerate(zip(self.attention, self.experts, strict=True)):
            x = x + attention(self.norms[2 * layer](x))
            x = x + experts(self.norms[2 * layer + 1](x))
        return self.head(self.norm(x))


def _both(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return first[0] * second[0], second[0] * first[1] + second[1]


def _scanned(steps: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the inclusive scan of `steps` with `_both` along dim 1. The size of dim 1 is a power of two."""
    if steps[0].shape[1] == 1:
        return steps
    first, second = (tuple(values[:, start::2] for values in steps) for start in (0, 1))
    odd = _scanned(_both(first, second))
    later = _both((odd[0][:, :-1], odd[1][:, :-1]), (first[0][:, 1:], first[1][:, 1:]))
    even = (torch.cat([f[:, :1], e], 1) for f, e in zip(first, later, strict=True))
    a, b = (torch.stack(pair, 2).flatten(1, 2) for pair in zip(even, odd, strict=True))
    return a, b


class Selective(nn.Module):
    """A Mamba block: a selective state-space layer with `inner` channels, twice the width of the model."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        inner, rank = 2 * width, max(1, width // 16)
        self.into, self.taps = _parameter(width, 2, inner), _parameter(inner, 1, TAPS)
        self.select, self.step = _parameter(inner, rank + 2 * states), _parameter(rank, inner)
        self.step_bias, self.decay = _parameter(inner), _parameter(inner, states)
        self.skip, self.out = _parameter(inner), _parameter(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        rank, states = self.step.shape[0], self.decay.shape[1]
        inner, gate = torch.einsum("blw,wci->blci", x, self.into).unbind(2)
        padded = functional.pad(inner.transpose(1, 2), (TAPS - 1, 0))
        inner = functional.silu(functional.conv1d(padded, self.taps, groups=inner.shape[-1]).transpose(1, 2))
        chosen, into, out = (inner @ self.select).split([rank, states, states], -1)
        step = functional.softplus(chosen @ self.step + self.step_bias)
        kept = (-step[..., None] * self.decay.exp()).exp()  # b l i s
        _, state = _scanned((kept, (step * inner)[..., None] * into[:, :, None]))
        y = torch.einsum("blis,bls->bli", state, out) + inner * self.skip
        return (y * functional.silu(gate)) @ self.out


class Mamba(nn.Module):
    def __init__(self, layers: int, width: int, states: int, words: int) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), nn.RMSNorm(width)
        self.layers = nn.ModuleList(Selective(width, states) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return self.norm(x) @ self.embedding.weight.T


class Residual(nn.Module):
    """A residual block: two convolutions with group norms. The time embedding is added between the convolutions."""

    def __init__(self, given: int, channels: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, given), nn.GroupNorm(8, channels)
        self.first, self.second = (nn.Conv2d(size, channels, 3, padding=1) for size in (given, channels))
        self.time = nn.Linear(time, channels)
        self.skip = nn.Identity() if given == channels else nn.Conv2d(given, channels, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.second(functional.silu(self.norm2(y)))


class Heads(nn.Module):
    """Multi-head attention: queries are computed from the rows `x`, keys and values from the rows `seen`."""

    def __init__(self, channels: int, width: int, heads: int) -> None:
        super().__init__()
        self.size = channels // heads
        self.query, self.out = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.key, self.value = nn.Linear(width, channels), nn.Linear(width, channels)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        q, k, v = (_heads(y, layer, self.size) for y, layer in ((x, self.query), (seen, self.key), (seen, self.value)))
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Attention(nn.Module):
    """Self-attention among the pixels of an image, then cross-attention from the pixels to the prompt."""

    def __init__(self, channels: int, width: int, heads: int = 8) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.own, self.cross = Heads(channels, channels, heads), Heads(channels, width, heads)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        y = self.norm(x).flatten(2).transpose(1, 2)
        seen = self.norms[0](y)
        y = y + self.own(seen, seen)
        y = y + self.cross(self.norms[1](y), prompt)
        y = y + self.down(functional.gelu(self.up(self.norms[2](y)), approximate="tanh"))
        return x + y.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    """Convolutions over ever smaller images with more channels, then back to the original size, with skip connections."""

    def __init__(self, channels: tuple[int, ...], blocks: int, width: int) -> None:
        super().__init__()
        time, first, last = 4 * channels[0], channels[0], channels[-1]
        self.times = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.start, self.end = nn.Conv2d(4, first, 3, padding=1), nn.Conv2d(first, 4, 3, padding=1)
        self.middle = nn.ModuleList([Residual(last, last, time), Attention(last, width), Residual(last, last, time)])
        self.norm = nn.GroupNorm(8, first)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        width_now, skip_channels = first, [first]
        for level, size in enumerate(channels):
            self.downs.append(nn.ModuleList(_level(size, time, width, level, [width_now, *[size] * (blocks - 1)])))
            self.downs.append(nn.Conv2d(size, size, 3, 2, 1) if size != last else nn.Identity())
            skip_channels += [size] * (blocks + (size != last))
            width_now = size
        for level, size in reversed([*enumerate(channels)]):
            input_channels = [width_now + skip_channels.pop(), *(size + skip_channels.pop() for _ in range(blocks))]
            self.ups.append(nn.ModuleList(_level(size, time, width, level, input_channels)))
            self.ups.append(nn.Conv2d(size, size, 3, padding=1) if level else nn.Identity())
            width_now = size

    def forward(self, x: Tensor, time: Tensor, prompt: Tensor) -> Tensor:
        half = self.start.out_channels // 2
        rates = torch.exp(-torch.arange(half, device=x.device) * (9.210340371976184 / half))
        angles = time[:, None] * rates
        time = self.times(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.start(x)
        seen = [x]
        for blocks, smaller in zip(self.downs[::2], self.downs[1::2], strict=True):
            for residual, attention in _pairs(blocks):
                x = _looked(attention, residual(x, time), prompt)
                seen.append(x)
            if isinstance(smaller, nn.Conv2d):
                x = smaller(x)
                seen.append(x)
        first, attention, second = self.middle
        x = second(attention(first(x, time), prompt), time)
        for blocks, larger in zip(self.ups[::2], self.ups[1::2], strict=True):
            for residual, attention in _pairs(blocks):
                x = _looked(attention, residual(torch.cat([x, seen.pop()], 1), time), prompt)
            if isinstance(larger, nn.Conv2d):
                x = larger(functional.interpolate(x, scale_factor=2, mode="nearest"))
        return self.end(functional.silu(self.norm(x)))


def _level(size: int, time: int, width: int, level: int, input_channels: list[int]) -> list[nn.Module]:
    """Return the modules of one resolution: for each number of input channels, a residual block with `size` output
    channels, followed by attention except on the first level.
    """
    return [module for channels in input_channels for module in (Residual(channels, size, time), Attention(size, width) if level else nn.Identity())]  # fmt: skip


def _pairs(blocks: Any) -> Any:
    return zip(blocks[::2], blocks[1::2], strict=True)


def _looked(attention: nn.Module, x: Tensor, prompt: Tensor) -> Tensor:
    return attention(x, prompt) if isinstance(attention, Attention) else x
