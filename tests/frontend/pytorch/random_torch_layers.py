"""Layers as steps of random PyTorch modules: attention, convolutions, pools, norms, embeddings, recurrent layers and
branches.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.frontend.pytorch.torch_maker import RandomBuilder, step
from tests.frontend.random_models import CannotBuild

F32 = (torch.float32,)


def _heads(m: RandomBuilder, x: int) -> int:
    """Append a reshape of a value to heads: [.., heads, length, width]."""
    shape = m.at(x).shape
    return m.add(lambda x: x.reshape(1, shape[0], -1, shape[-1]), x)


@step
def attention(m: RandomBuilder) -> None:
    q = _heads(m, m.of_rank(3, 4))
    _, heads, length, width = m.at(q).shape
    groups = m.one_of([n for n in range(1, heads + 1) if heads % n == 0])
    keys = m.one_of((length, m.integer(1, 5)))
    k, v = m.weight(1, groups, keys, width, like=q), m.weight(1, groups, keys, m.one_of((width, 3)), like=q)
    options: dict[str, Any] = {"enable_gqa": groups != heads, "scale": m.one_of((None, 0.5))}
    mask = m.integer(0, 3)
    if mask == 0:
        m.add(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, **options), q, k, v)
    elif mask == 1:
        m.add(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options), q, k, v)
    elif mask == 2:
        bias = m.weight(*m.one_of(((length, keys), (1, 1, length, keys), (heads, 1, keys), (1, keys))), like=q)
        m.add(lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, attn_mask=b, **options), q, k, v, bias)
    else:
        flags = m.add(
            lambda flags: flags > 0, m.rows(3, *m.one_of(((length, keys), (1, 1, 1, keys), (heads, length, 1))))
        )
        m.add(lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, attn_mask=b, **options), q, k, v, flags)


@step
def self_attention(m: RandomBuilder) -> None:
    """Append self-attention over heads that are projected from one value."""
    x = m.pick(lambda tensor: tensor.ndim == 3 and tensor.shape[-1] % 2 == 0 and tensor.numel() > 0)
    is_causal = bool(m.integer(0, 1))

    def attended(x: Any, w: Any) -> Any:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in (x @ w).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2).flatten(-2)

    m.add(attended, x, m.weight(m.at(x).shape[-1], 3 * m.at(x).shape[-1], like=x))


@step
def attention_layer(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim == 3 and tensor.shape[-1] % 2 == 0 and tensor.numel() > 0, kinds=F32)
    layer = nn.MultiheadAttention(m.at(x).shape[-1], 2, batch_first=bool(m.integer(0, 1))).eval()
    needs = bool(m.integer(0, 1))
    m.layer(_Attended(layer, needs), x)


class _Attended(nn.Module):
    def __init__(self, layer: nn.Module, needs_weights: bool) -> None:
        super().__init__()
        self.layer, self.needs_weights = layer, needs_weights

    def forward(self, x: Any) -> Any:
        output, weights = self.layer(x, x, x, need_weights=self.needs_weights)
        return (output, weights) if self.needs_weights else output


@step
def encoder(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim == 3 and tensor.shape[-1] % 2 == 0 and tensor.numel() > 0, kinds=F32)
    m.layer(
        nn.TransformerEncoderLayer(
            m.at(x).shape[-1], 2, 8, dropout=0.0, batch_first=True, norm_first=bool(m.integer(0, 1))
        ),
        x,
    )


@step
def dense(m: RandomBuilder) -> None:
    x = m.of_rank(1, kinds=F32)
    m.layer(
        nn.Sequential(
            nn.Linear(m.at(x).shape[-1], 4),
            m.one_of((nn.GELU(), nn.ReLU(), nn.Dropout(0.0))),
            nn.Linear(4, 3, bias=False),
        ),
        x,
    )


@step
def tied_head(m: RandomBuilder) -> None:
    """Append an embedding and a head that share one weight, which then has two names."""
    ids = m.rows(5, *m.one_of(((3,), (2, 4))))
    table = m.parameter(torch.from_numpy(m.numbers(5, 4)))
    m.names[f"tied{table}"] = table
    x = m.add(lambda ids, w: F.embedding(ids, w), ids, table, keeps=True)
    m.add(lambda x, w: F.linear(x.tanh(), w), x, table)


@step
def embedding(m: RandomBuilder) -> None:
    ids = m.rows(6, *m.one_of(((), (3,), (2, 3))))
    options = m.one_of(({}, {"padding_idx": 2}, {"scale_grad_by_freq": False}))
    m.layer(nn.Embedding(6, m.integer(1, 4), **options), ids)


@step
def embedding_bag(m: RandomBuilder) -> None:
    ids, mode = m.rows(6, 3, 4), m.one_of(("sum", "mean", "max"))
    m.add(lambda ids, w: F.embedding_bag(ids, w, mode=mode), ids, m.weight(6, 3))


@step
def convolution(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    features, *sizes = m.at(x).shape[1:]
    taps = [min(size, m.integer(1, 3)) for size in sizes]
    groups = features if m.integer(0, 2) == 0 else 1
    n = groups * m.integer(1, 3)
    w = m.weight(n, features // groups, *taps, like=x)
    function = (F.conv1d, F.conv2d)[len(sizes) - 1]
    options = {"stride": m.integer(1, 2), "groups": groups, "padding": m.one_of((0, 1)), "dilation": 1}
    if m.integer(0, 3) == 0:
        options |= {"stride": 1, "padding": "same"}
    elif m.integer(0, 3) == 0:
        options |= {"dilation": 2, "padding": 2}
    m.add(lambda x, w, *b: function(x, w, *b, **options), x, w, *([m.weight(n, like=x)] if m.integer(0, 1) else []))


@step
def transposed_convolution(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    features, *sizes = m.at(x).shape[1:]
    groups = features if m.integer(0, 2) == 0 else 1
    w = m.weight(features, m.integer(1, 2), *[m.integer(2, 3) for _ in sizes], like=x)
    function, stride = (F.conv_transpose1d, F.conv_transpose2d)[len(sizes) - 1], m.integer(1, 2)
    options = {
        "stride": stride,
        "padding": m.integer(0, 1),
        "output_padding": m.integer(0, stride - 1),
        "groups": groups,
    }
    m.add(lambda x, w: function(x, w, **options), x, w)


@step
def pool(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    sizes = m.at(x).shape[2:]
    taps = [min(size, m.integer(1, 3)) for size in sizes]
    options: dict[str, Any] = {
        "stride": m.one_of((None, 1, 2)),
        "padding": [m.integer(0, size // 2) for size in taps],
        "ceil_mode": bool(m.integer(0, 1)),
    }
    if m.integer(0, 1):
        function = (F.max_pool1d, F.max_pool2d)[len(sizes) - 1]
        m.add(lambda x: function(x, taps, **options), x, keeps=True)
    else:
        average = (F.avg_pool1d, F.avg_pool2d)[len(sizes) - 1]
        options["count_include_pad"] = bool(m.integer(0, 1))
        m.add(lambda x: average(x, taps, **options), x)


@step
def places_of_pool(m: RandomBuilder) -> None:
    x = m.distinct(m.integer(1, 2), m.integer(1, 3), m.integer(2, 5), m.integer(2, 5))
    stride = m.integer(1, 2)
    m.add(lambda x: F.max_pool2d(x, 2, stride, return_indices=True), x, keeps=True)


@step
def adaptive_pool(m: RandomBuilder) -> None:
    x, size = m.of_rank(3, 4), m.integer(1, 4)
    functions = ((F.adaptive_avg_pool1d, F.adaptive_max_pool1d), (F.adaptive_avg_pool2d, F.adaptive_max_pool2d))
    function = m.one_of(functions[m.at(x).ndim - 3])
    m.add(lambda x: function(x, size), x)


@step
def layer_norm(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    shape = m.at(x).shape[-m.integer(1, min(2, m.at(x).ndim)) :]
    weights = [m.weight(*shape, like=x) for _ in range(m.integer(0, 2))]
    m.add(lambda x, *w: F.layer_norm(x, shape, *w, eps=0.1), x, *weights)


@step
def rms_norm(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    shape = m.at(x).shape[-1:]
    m.add(
        lambda x, *w: F.rms_norm(x, shape, *w, eps=0.1), x, *[m.weight(*shape, like=x) for _ in range(m.integer(0, 1))]
    )


@step
def group_norm(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    features = m.at(x).shape[1]
    groups = m.one_of([n for n in range(1, features + 1) if features % n == 0])
    m.add(
        lambda x, *w: F.group_norm(x, groups, *w, eps=0.1),
        x,
        *[m.weight(features, like=x) for _ in range(m.integer(0, 2))],
    )


@step
def batch_norm(m: RandomBuilder) -> None:
    """Append a batch norm. It uses its running statistics, or those of the batch; then it updates its buffers."""
    x = m.pick(lambda tensor: 2 <= tensor.ndim <= 4 and tensor.numel() > 2 * tensor.shape[1] > 0, kinds=F32)
    kind = nn.BatchNorm2d if m.at(x).ndim == 4 else nn.BatchNorm1d
    layer = kind(
        m.at(x).shape[1],
        eps=0.1,
        momentum=m.one_of((0.1, 0.5)),
        affine=bool(m.integer(0, 1)),
        track_running_stats=m.integer(0, 3) > 0,
    )
    m.layer(layer.train(bool(m.integer(0, 1))), x)


@step
def instance_norm(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim in (3, 4) and tensor[0, 0].numel() > 1 if tensor.numel() else False)
    m.add(lambda x: F.instance_norm(x, eps=0.1), x)


@step
def recurrent(m: RandomBuilder) -> None:
    x = m.of_rank(2, 3, kinds=F32)
    kind = m.one_of((nn.LSTM, nn.GRU, nn.RNN))
    layer = kind(
        m.at(x).shape[-1],
        2,
        num_layers=m.integer(1, 2),
        bidirectional=bool(m.integer(0, 1)),
        batch_first=bool(m.integer(0, 1)),
    )
    m.layer(_Rows(layer), x)


class _Rows(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        rows, state = self.layer(x)
        return (rows, *(state if isinstance(state, tuple) else (state,)))


@step
def resize(m: RandomBuilder) -> None:
    x = m.of_rank(4, 4)
    size, mode = (
        (m.integer(1, 5), m.integer(1, 5)),
        m.one_of(("nearest", "bilinear", "bicubic", "area", "nearest-exact")),
    )
    more = {"align_corners": bool(m.integer(0, 1))} if mode in ("bilinear", "bicubic") else {}
    m.add(lambda x: F.interpolate(x, size, mode=mode, **more), x)


@step
def windows(m: RandomBuilder) -> None:
    x = m.pick(lambda tensor: tensor.ndim == 4 and min(tensor.shape) > 0 and min(tensor.shape[2:]) > 1)
    m.add(m.one_of((lambda x: F.unfold(x, 2), lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2))), x)


@step
def choice(m: RandomBuilder) -> None:
    """Append a branch on a runtime condition. Both branches capture a value."""
    x = m.of_rank(1, kinds=F32)
    if not m.at(x).is_contiguous():
        raise CannotBuild
    flag = m.rows(2)
    function = m.one_of((torch.sin, torch.tanh, torch.cos))
    m.add(lambda flag, x: torch.cond(flag > 0, lambda x: function(x) * 2, lambda x: x - 1, (x,)), flag, x)
