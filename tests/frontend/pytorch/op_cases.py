"""More test cases of PyTorch's operations, and of gradients that `make_fx` records. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch as f
import torch.nn.functional as F

# fmt: off
Add = Callable[..., None]  # add(name, function, *types of the arguments)
KINDS = ("sum", "prod", "mean", "amax", "amin")
MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def gradient(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """Return a function for the gradients, with respect to its first `count` arguments, of the sum of squared results
    of `function`.
    """

    def gradients(*args: Any) -> Any:
        result, vjp = torch.func.vjp(lambda *xs: function(*xs, *args[count:]), *args[:count])
        return vjp(torch.utils._pytree.tree_map(lambda tensor: 2 * tensor, result))

    return gradients


def groups(add: Add) -> None:
    """Add reductions over groups of rows."""
    add("scatter_reduced", lambda x, i, s: tuple(x.scatter_reduce(1, i, s, kind, include_self=include) for kind in KINDS for include in (True, False)), "f32[6,5]", "i64[6,3]<5", "f32[6,3]")
    add("index_reduced", lambda x, i, s: tuple(x.index_reduce(0, i, s, kind, include_self=include) for kind in KINDS[1:] for include in (True, False)), "f32[6,5]", "i64[4]<6", "f32[4,5]")
    add("segments", lambda x: tuple(f.segment_reduce(x, kind, lengths=f.tensor([2, 0, 3, 1])) for kind in ("sum", "mean", "max", "min", "prod")), "f32[6,2]")
    add("frequent", lambda x, i: (*f.mode(i, 1), *f.nanmedian(f.where(x > 0, x, f.nan), 1), f.nonzero_static(x > 0, size=9), f.logcumsumexp(x, 0)), "f32[6,5]", "i64[6,5]<3")
    add("binned", lambda x, t, v: (*f.histogram(x.cpu(), 4), f.histc(x, 5), f.searchsorted(t.sort(1)[0], v, side="right"), f.searchsorted(t[0].sort()[0], 0.1), f.repeat_interleave(f.tensor([1, 0, 2]), output_size=3)), "f32[6,5]", "f32[3,4]", "f32[3,2]")


def scalars(add: Add) -> None:
    """Add reductions of tensors without dims and of tensors without elements."""
    add("dims_of_scalars", lambda x, i: (*x.max(0), *x.min(0, keepdim=True), *x.topk(1), *x.sort(0), *x.kthvalue(1), *x.cummax(0), x.index_select(0, i), x.index_add(0, i, x), x.unfold(0, 1, 1), x.logsumexp(0), x.prod(0), x.amax(0), x.log_softmax(0), x.argmax(0), x.std(0, correction=0)), "f32[]", "i64[1]<1")
    add("means_of_nothing", lambda x: (x.mean(0), x.var(0), *f.std_mean(x, 0, keepdim=True), f.linalg.det(x[:, :0]), f.linalg.slogdet(x[:, :0])[1]), "f32[0,5]")


def types(add: Add) -> None:
    """Add cases for the element type of results: sums of small integers, and absolute values of complex numbers."""
    add("sums_of_bytes", lambda x: tuple(g for x in (x.to(f.uint8), x.to(f.int8)) for g in (x.sum(), x.sum(0), x.prod(1), x.cumsum(0), x.cumprod(1), x.nansum(), x.trace(), x[0, 0].cumsum(0), x.sum(dtype=f.uint8))), "i64[3,3]<4")
    add("sizes_of_complex", lambda x, y: tuple(g for z in (f.complex(x, y),) for g in (z.std(), f.std_mean(z, 0)[0], f.view_as_real(f.std_mean(z, 0)[1]), z.norm(p=1), F.normalize(z, dim=0).real, *(f.linalg.vector_norm(z, p, dim=1) for p in (0, 1, 2, 3.0, f.inf, -f.inf)), f.linalg.matrix_norm(z), f.dist(z, z * 2))), "f32[4,3]", "f32[4,3]")


def images(add: Add) -> None:
    """Add pooling with and without a batch dim, resizing and padding of images."""
    add("pools_without_a_batch", lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.max_pool1d(x[0], 2), F.adaptive_max_pool1d(x[0], 2), F.adaptive_avg_pool2d(x, 3), F.max_pool3d(x[None], 2), *F.max_pool2d(x, 3, 2, 1, return_indices=True)), "f32[2,6,7]")
    add("max_places", lambda x: (*F.max_pool3d(x, 2, return_indices=True), *F.max_pool1d(x[0, 0], 3, 2, 1, 2, return_indices=True), *F.adaptive_max_pool2d(x[0], (3, 2), return_indices=True), *F.adaptive_max_pool2d(x[0, :, :3], (4, 4), return_indices=True), *F.adaptive_max_pool3d(x, (3, 2, 3), return_indices=True)), "f32[2,2,4,5,6]")
    add("integer_pool", lambda x: F.avg_pool2d(x, 2) + F.conv2d(x, x[:1, :, :2, :2])[..., ::2, ::2] + F.hardtanh(x, 0, 2)[..., ::2, ::2], "i64[2,3,4,4]<9")
    add("sized", lambda x: tuple(F.interpolate(x, size, mode=mode) for mode in MODES for size in ((6, 3), (2, 10))), "f32[2,3,4,5]")
    add("antialiased", lambda x: tuple(F.interpolate(x, size, mode=mode, antialias=True) for mode in MODES[2:] for size in ((6, 3), (2, 10))), "f32[2,3,4,5]")
    add("cropped_pads", lambda x: tuple(F.pad(x, (-1, 2, 1, -1), mode=mode) for mode in ("constant", "reflect", "replicate", "circular")), "f32[2,3,4,5]")
    add("conv_transpose_without_a_batch", lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1), "f32[2,4,5]", "f32[2,3,3,3]")
    add("grid_sample_cubic", lambda x, g: tuple(F.grid_sample(x, g, "bicubic", padding, corners) for padding in ("zeros", "border", "reflection") for corners in (True, False)), "f32[2,1,4,5]", "f32[2,3,2,2]")
    add("instance_norm_training", lambda x, m, v: (F.instance_norm(x, m, v, momentum=0.3), m, v), "f32[3,2,5]", "f32[2]", "f32[2]>0")


def columns(add: Add) -> None:
    """Add im2col (windows of images as columns), and other operations that torch can decompose."""
    window = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 2), "stride": (1, 2)}
    add("windows_as_columns", lambda x: (F.unfold(x, **window), F.unfold(x[0], 2), F.fold(F.unfold(x, **window), (5, 6), **window), F.fold(F.unfold(x[0], 2), (5, 6), 2)), "f32[2,3,5,6]")
    add("split_at", lambda x: (*x.tensor_split([2, -1, 9], 1), x.mT.ravel(), F.channel_shuffle(x[None], 3), torch.complex(x, x).conj().imag * 2), "f32[6,5]")


def views(add: Add) -> None:
    """Add conjugates, views that share memory, and writes to views."""

    def written(x: Any, y: Any) -> Any:
        x, z = x.clone(), torch.complex(x, y).clone()
        x.diagonal().mul_(2)
        x.movedim(0, 1)[0].add_(1)
        x.as_strided((2, 2), (6, 1), 1).zero_()
        z.real.mul_(3)
        return x, torch.view_as_real(z.transpose_(0, 1)), x.t_().clone().unsqueeze_(0)

    def given_memory(x: Any, y: Any) -> Any:
        z, total = x.clone(), torch.zeros(5, dtype=torch.float64)
        z[0].copy_(y[1]).mul_(3)
        torch.div(z[1], y[1], rounding_mode="floor", out=z[2]).sub_(1)
        torch.sum(z, 0, out=total)
        return z, total, F.normalize(x, dim=0, out=torch.empty(5, 5))

    add("given_memory", given_memory, "f32[5,5]", "f32[5,5]")
    add("written_views", written, "f32[5,5]", "f32[5,5]")
    add("conjugates", lambda x, y: tuple(torch.view_as_real(tensor.resolve_conj()) for z in [torch.complex(x, y)] for tensor in (z.mH * 1, torch.adjoint(z) * 1, z.mT.conj() * 1, z.mH @ z, torch.vdot(z[0], z[1]), torch.linalg.vecdot(z, z * 1j), z.H)), "f32[3,4]", "f32[3,4]")
    add("strided", lambda x: (x.as_strided((3, 2), (2, 3), 1), x.t().as_strided((2, 2), (1, 5)), x.as_strided((2, 4), (1, 0)), x.as_strided_scatter(x[0, :2] * 9, (2,), (7,))), "f32[4,5]")
    add("repeated_sum", lambda x, y: f.tensordot(x, y, dims=([1], [0])), "f32[2,1]", "f32[3,4]")
    add("spaced", lambda x: (f.linspace(x[0], x[1], 5), f.linspace(x[0], 2.0, 4), f.logspace(x[0], x[1], 3)), "f32[2]")
    add("exponents", lambda x: (*f.frexp(x * 100), f.ldexp(x, f.tensor([1, -2, 3, 0, 5])), f.special.gammainc(x.abs() + 0.5, x.abs() * 4), f.special.gammaincc(x.abs() * 3 + 1, x.abs() * 3), f.special.chebyshev_polynomial_t(x, f.tensor([0.0, 1.0, 2.0, 5.0, 7.0])), f.special.hermite_polynomial_h(x, f.tensor([3, 0, 1, 4, 2]))), "f32[6,5]")
    add("integer_sums", lambda b, x: (f.addmm(b, x, x), f.baddbmm(b[None], x[None], x[None], beta=2, alpha=3)), "i64[3,3]<9", "i64[3,3]<9")


def factors(add: Add) -> None:
    """Add LU factorizations, and solvers that use the factors."""
    at = f.linalg
    add("lu", lambda x, b: (*at.lu(x), *f.lu_unpack(*at.lu_factor(x)), *(at.lu_solve(*at.lu_factor(x), b, adjoint=flag) for flag in (False, True)), at.lu_solve(*at.lu_factor(x), b.mT, left=False)), "f32[2,4,4]", "f32[2,4,3]")
    add("lu_uneven", lambda x: (*at.lu(x), *at.lu(x.mT)), "f32[2,5,3]")
    add("matrix_exp", lambda x: (at.matrix_exp(x), at.matrix_exp(x * 3), at.matrix_exp(x * 0)), "f32[2,3,3]")


def gradients(add: Add) -> None:
    """Add gradients that are a single operation in torch."""
    add("gradient_pools", gradient(lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), F.max_pool2d(x, 3, 2, 1), F.avg_pool3d(x[None], 2), F.max_pool3d(x[None], 2), F.adaptive_avg_pool2d(x, 3), F.adaptive_avg_pool2d(x, 2), F.adaptive_max_pool2d(x, (3, 4)), F.local_response_norm(x, 3))), "f32[2,3,6,7]")
    add("gradient_sizes", gradient(lambda x: tuple(F.interpolate(x, size, mode=mode) for mode in MODES for size in ((8, 3), (2, 10)))), "f32[2,3,4,5]")
    add("gradient_antialiased", gradient(lambda x: F.interpolate(x, (2, 7), mode="bilinear", antialias=True)), "f32[2,3,4,5]")
    add("gradient_conv_transpose", gradient(lambda x, w, b: (F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), F.conv_transpose2d(x, w, None, dilation=2, groups=2)), 3), "f32[2,4,3,4]", "f32[4,2,3,3]", "f32[2]")
    add("gradient_grid_sample", gradient(lambda x, g: tuple(F.grid_sample(x, g * 1.2, mode, padding, corners) for mode in ("bilinear", "bicubic") for padding, corners in (("zeros", False), ("border", True), ("reflection", False))), 2), "f32[2,2,4,5]", "f32[2,3,2,2]")
    add("gradient_pads", gradient(lambda x: tuple(F.pad(x, (2, 1, -1, 2), mode=mode) for mode in ("reflect", "replicate", "circular"))), "f32[2,3,4,5]")
    add("gradient_embedding_bag", gradient(lambda w, r, i: (F.embedding_bag(i, w, mode="mean", padding_idx=3), F.embedding_bag(i, w, mode="sum", per_sample_weights=r), F.embedding_bag(i.flatten(), w, f.arange(3) * 4, mode="max")), 2), "f32[6,4]", "f32[4,3]", "i64[4,3]<6")
    add("gradient_embedding_bag_of_equal_rows", gradient(lambda w, i: F.embedding_bag(i, w - w.detach(), mode="max") + 1), "f32[6,4]", "i64[4,3]<6")
    add("gradient_of_complex_factors", gradient(lambda x: torch.view_as_real(torch.complex(x, x + 1) * 0.25j)), "f32[6]")
    add("gradient_shrunk", gradient(lambda x: (F.hardshrink(x, 0.4), F.softshrink(x, 0.3), F.mish(x), F.instance_norm(x[None]) ** 2)), "f32[6,5]")
    add("gradient_distances", gradient(lambda x, y: tuple(tensor for p in (1.0, 2.0, 3.0, float("inf")) for tensor in (f.cdist(x, y, p), F.pdist(x, p))), 2), "f32[6,5]", "f32[4,5]")
    add("gradient_margins", gradient(lambda x, t: (F.multi_margin_loss(x, t), F.multi_margin_loss(x, t, p=2, reduction="none"), F.bilinear(x, x, x[:, :, None] * x[:, None]))), "f32[5,5]", "i64[5]<5")
    add("gradient_segments", gradient(lambda x: tuple(f.segment_reduce(x, kind, lengths=f.arange(1, 4)) for kind in ("sum", "mean", "max", "prod"))), "f32[6,2]")
    add("gradient_factors", gradient(lambda x: (f.linalg.qr(x)[1], f.linalg.matrix_exp(x), f.linalg.inv(x + 4 * f.eye(3)), f.linalg.slogdet(x)[1], f.linalg.lu_factor(x)[0])), "f32[3,3]")
    add("gradient_attention", gradient(lambda q, k, v, m: (F.scaled_dot_product_attention(q, k, v, m, enable_gqa=True), F.scaled_dot_product_attention(q, k, v, f.where(m, 0.5, -f.inf), enable_gqa=True)), 3), "f32[2,4,3,8]", "f32[2,2,3,8]", "f32[2,2,3,8]", "i1[3,3]")
    add("attention_of_nothing", lambda q, m: (F.scaled_dot_product_attention(q, q, q, f.where(m & (f.arange(3) > 0)[:, None], 0.5, -f.inf)), F.scaled_dot_product_attention(q, q, q, m & (f.arange(3) > 0)[:, None])), "f32[2,4,3,8]", "i1[3,3]")


SECTIONS = (groups, scalars, types, images, columns, views, factors, gradients)
