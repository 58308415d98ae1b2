"""Test cases of PyTorch's operations. `python -m tests.frontend.pytorch.torch_cases` writes their programs and the
results that torch computes to a file. Needs torch.

With the file, tests need no torch. If torch is installed, `test_torch_live.py` also exports the cases and runs them
again. A case is a function with the types of its arguments; `cases.py` draws the arguments.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch as f
import torch.nn.functional as F
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan, while_loop

from meshgen.frontend.torch.export import serialized
from tests.frontend.pytorch import op_cases
from tests.frontend.pytorch.cases import CASES_FILE, arguments

# fmt: off
Case = tuple[Callable[..., Any], tuple[str, ...]]
Add = Callable[..., None]  # add(name, function, *types of the arguments)
ONE, TWO = ("f32[6,5]",), ("f32[6,5]", "f32[6,5]")


def cases() -> dict[str, Case]:
    """Return all test cases by name."""
    cases_by_name: dict[str, Case] = {}

    def add(name: str, function: Callable[..., Any], *kinds: str) -> None:
        assert name not in cases_by_name, name
        cases_by_name[name] = function, kinds

    for section in SECTIONS:
        section(add)
    return cases_by_name


def elementwise(add: Add) -> None:
    """Add element-wise functions."""
    for name in ["exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh", "erf", "erfc", "sigmoid", "abs", "neg", "sign", "floor", "ceil", "trunc", "round", "frac", "square", "exp2", "isnan", "isinf", "isfinite", "deg2rad", "sinc"]:
        add(name, getattr(f, name), *ONE)
    for name in ["log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma"]:
        add(name, getattr(f, name), "f32[6,5]>0")
    for name in ["asin", "acos", "atanh", "erfinv"]:
        within = getattr(f, name)
        add(name, lambda x, within=within: within(x * 0.8), "f32[6]>0")
    for name in ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "atan2", "fmod", "remainder", "hypot", "logaddexp", "fmax", "fmin", "copysign"]:
        add(name, getattr(f, name), *TWO)
    for name in ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"]:
        add(name, getattr(f, name), "i1[6,5]", "i1[6,5]")
    for name in ["relu", "relu6", "silu", "mish", "softplus", "elu", "celu", "selu", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "logsigmoid", "softsign", "tanhshrink"]:
        add(name, getattr(F, name), *ONE)
    add("integers", lambda x, y: (x + y, x * 2, x / (y + 2), x // (y + 2), x % (y + 2), -x, x & y, x | y, x ^ y, x << 1, x >> 1, x**2, ~x, x > 1.5), "i64[6]<9", "i64[6]<9")
    add("negative_division", lambda x: (torch.div(x, 3, rounding_mode="floor"), torch.div(x, 3, rounding_mode="trunc"), (x - 4) // 3, (x - 4) % 3), "i64[6]<9")
    add("promotion", lambda x, i, b, h: (x + i, i + 1.5, b + 1, i * b, h + 1, h * i, h + x[0, 0], i + x[0, 0], b * 2.0, h.sum() + x), "f32[6,5]", "i64[6,5]", "i1[6,5]", "f16[6,5]")
    add("rounding_division", lambda x, y: (torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc"), x // y), *TWO)
    add("scalars", lambda x: (x + 2, 3 - x, 2 / x, x**3, x**0.5, 2**x, torch.rsub(x, 1, alpha=2), x.add(x, alpha=3)), "f32[6]>0")
    add("where", lambda c, x, y: (f.where(c, x, y), f.where(c, x, 0.0), x.masked_fill(c, -1.0)), "i1[6,5]", *TWO)
    add("clamp", lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=y)), *TWO)
    add("combined", lambda x, y, z: (f.addcmul(x, y, z, value=2), f.addcdiv(x, y, z, value=0.5), f.lerp(x, y, 0.3), f.xlogy(y, z)), "f32[6]", "f32[6]", "f32[6]>0")
    add("nan_to_num", lambda x: (f.nan_to_num(f.log(x)), f.nan_to_num(1 / (x * 0), nan=1.0, posinf=2.0)), *ONE)
    add("gelu", lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")), *ONE)
    add("glu", lambda x: F.glu(x, 0), *ONE)
    add("prelu", F.prelu, "f32[2,3,4]", "f32[3]")
    add("threshold", lambda x: F.threshold(x, 0.1, 20.0), *ONE)
    add("softmax", lambda x: (F.softmax(x, 0), F.log_softmax(x, -1), x.half().softmax(-1, dtype=torch.float32)), *ONE)
    add("to", lambda x: (x.to(torch.float64), x.half(), x.int(), x.bool(), x.type_as(x.double()), x.to(x.int())), *ONE)
    add("complex", lambda x, y: (torch.view_as_real(torch.view_as_complex(x) * torch.polar(y[..., 0], y[..., 1])), torch.complex(x[..., 0], x[..., 1]).abs()), "f32[4,2]", "f32[4,2]>0")


def reductions(add: Add) -> None:
    """Add sums, extremes, sorts and searches."""
    add("sum", lambda x: (x.sum(), x.sum(0), x.sum((0, 2), keepdim=True), x.mean(-1), x.prod(1), x.int().sum(), x.sum(dtype=torch.float64)), "f32[3,4,5]")
    add("extremes", lambda x: (x.max(), x.min(), x.amax((0, 1)), x.amin(1, keepdim=True), *x.max(1), *x.min(2, keepdim=True), x.argmax(), x.argmin(0)), "f32[3,4,5]")
    add("spread", lambda x: (x.var(), x.var(1), x.std(0, keepdim=True), x.var(1, unbiased=False), *torch.var_mean(x, 1), x.std(correction=2)), "f32[3,4]")
    add("norms", lambda x: (x.norm(), x.norm(dim=1), x.norm(1, dim=0), torch.linalg.vector_norm(x, 3, dim=1), torch.linalg.vector_norm(x, float("inf"))), "f32[3,4]")
    add("truth", lambda x: (x.any(), x.all(1), (x > 0).any(0, keepdim=True), f.count_nonzero(x > 0)), *ONE)
    add("logsumexp", lambda x: x.logsumexp((0, 1)), *ONE)
    add("cumulated", lambda x: (x.cumsum(0), x.cumprod(1), x.int().cumsum(1)), *ONE)
    add("topk", lambda x: (*x.topk(3), *x.topk(2, dim=0, largest=False)), *ONE)
    add("sort", lambda x: (*x.sort(1), *x.sort(0, descending=True), x.argsort(0)), *ONE)
    add("searched", lambda x, y: (torch.searchsorted(x.sort()[0], y), torch.bucketize(y, x.sort()[0], right=True)), "f32[6]", "f32[3,2]")


def shapes(add: Add) -> None:
    """Add views, concatenations, pads and tensor creation."""
    add("views", lambda x: (x.view(12, 5), x.reshape(3, -1), x.flatten(1), x.permute(2, 0, 1), x.transpose(0, 2), x.mT, x.unsqueeze(1), x.movedim(0, 2), x.unflatten(1, (2, -1))), "f32[3,4,5]")
    add("squeeze", lambda x: (x.squeeze(), x.squeeze(0), x.squeeze((1, 2)), x[0, 0].t(), x.expand(2, -1, -1, 4), x.expand_as(x)), "f32[1,1,3,4]")
    add("repeated", lambda x: (x.repeat(2, 1, 3), x.tile(2), x.repeat_interleave(2, 0), x.repeat_interleave(3)), "f32[2,3]")
    add("joined", lambda x, y: (f.cat([x, y], 1), f.stack([x, y], -1), f.cat([x, x.half()]), f.hstack([x, y])), *TWO)
    add("parts", lambda x: (*x.split(4), *x.split([1, 5]), *x.chunk(4), *x.unbind(1), *x.tensor_split(4)), *ONE)
    add("slices", lambda x: (x[1:5:2], x[:, -2:], x[..., None], x[2], x.narrow(0, 1, 3), x.select(1, 2), x[-1, 1:]), *ONE)
    add("moved", lambda x: (x.roll(2), x.roll((1, 2), (0, 1)), x.flip(0, 1), x.tril(), x.triu(1), x.diagonal(), x[0].diag(), x.diag()), "f32[4,4]")
    add("padded", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0), F.pad(x, (-1, 1)), F.pad(x[None], (2, 1, 1, 1), mode="reflect"), F.pad(x[None], (1, 1), mode="replicate"), F.pad(x[None], (2, 1), mode="circular")), "f32[4,5]")
    add("unfolded", lambda x: x.unfold(0, 3, 2), "f32[7,2]")
    add("pixels", lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)), "f32[2,8,3,2]")
    add("grid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), "f32[3]", "f32[2]")
    add("made", lambda x: (f.arange(5), f.arange(1, 7, 2), f.arange(0, 1, 0.25), f.zeros(2, 3), f.ones_like(x), f.full((2,), 7), f.full_like(x, 2.0), f.eye(3), f.linspace(0, 1, 5), x.new_ones(2), x.new_full((2,), 3.0), f.tril_indices(3, 3)), "f32[2]")
    add("one_hot", lambda i: F.one_hot(i, 5), "i64[3,2]<5")


def indexing(add: Add) -> None:
    """Add gathers and scatters of rows and elements."""
    add("embedding", lambda w, i: F.embedding(i, w), "f32[7,3]", "i64[2,4]<7")
    add("indexed", lambda x, i, j: (x[i], x[:, j], x[i, j], x[i][:, None], x[None, i], x[i[:, None], j], x[-i - 1]), "f32[6,5]", "i64[3]<6", "i64[3]<5")
    add("selected", lambda x, i: (x.index_select(0, i), x.index_select(1, i), x.take_along_dim(i[:, None], 0)), "f32[6,5]", "i64[4]<5")
    add("gather", lambda x, i: (x.gather(0, i), x.gather(1, i)), "f32[6,5]", "i64[3,4]<5")
    add("scatter", lambda x, i, s: (x.scatter(1, i, s), x.scatter_add(0, i, s), x.scatter(0, i[:1], 2.0), x.scatter_reduce(0, i, s, "amax"), x.scatter(1, i[:, :1], s, reduce="add")), "f32[6,5]", "i64[3,4]<4", "f32[3,4]")
    add("put", lambda x, i, v: (x.index_put((i,), v, accumulate=True), x.index_add(0, i, v, alpha=2), x.index_copy(0, f.tensor([1, 3]), v[:2]), x.index_fill(1, f.tensor([0, 2]), 4.0), x.index_put((f.tensor([2, 0]),), v[:2])), "f32[6,5]", "i64[4]<6", "f32[4,5]")
    add("scattered_slices", lambda x, v: (x.select_scatter(v[0], 0, 2), x.slice_scatter(v, 0, 1, 5, 2)), "f32[6,5]", "f32[2,5]")


def products(add: Add) -> None:
    """Add GEMMs and attention."""
    add("linear", F.linear, "f32[2,3,4]", "f32[5,4]", "f32[5]")
    add("matmul", lambda x, y, v: (x @ y, x[0] @ y, x @ v, v @ y[1], f.mm(x[0], y[0]), f.bmm(x, y), f.dot(v, v), f.outer(v, v)), "f32[2,3,4]", "f32[2,4,5]", "f32[4]")
    add("addmm", lambda b, x, y: (f.addmm(b, x, y, beta=0.5, alpha=2), f.baddbmm(b[None], x[None], y[None])), "f32[3,5]", "f32[3,4]", "f32[4,5]")
    add("einsum", lambda x, y: (f.einsum("bij,bjk->bik", x, y), f.einsum("bij,bjk->k", x, y), f.tensordot(x, y, ([0, 2], [0, 1]))), "f32[2,3,4]", "f32[2,4,5]")
    add("attention", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v, scale=0.3)), "f32[2,4,6,8]", "f32[2,4,6,8]", "f32[2,4,6,8]")
    add("attention_masked", lambda q, k, v, m, b: (F.scaled_dot_product_attention(q, k, v, m), F.scaled_dot_product_attention(q, k, v, b)), "f32[2,4,6,8]", "f32[2,4,5,8]", "f32[2,4,5,8]", "i1[2,1,6,5]", "f32[6,5]")
    add("attention_grouped", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True), "f32[2,4,6,8]", "f32[2,2,6,8]", "f32[2,2,6,8]")
    add("grouped_mm", lambda x, w, y, m: [F.grouped_mm(a.bfloat16(), b.bfloat16(), offs=f.tensor([2, 2, 5, 8], dtype=torch.int32)).float() for a, b in ((x, w), (x.t(), y), (m, y.t()))], "i32[8,16]", "i32[4,16,8]", "i32[8,8]", "i32[4,8,8]")
    add("attention_half", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "f16[2,4,6,8]", "f16[2,4,6,8]", "f16[2,4,6,8]")


def layers(add: Add) -> None:
    """Add norms, convolutions and pooling."""
    add("layer_norm", lambda x, w, b: (F.layer_norm(x, (5,), w, b), F.layer_norm(x, (4, 5)), F.layer_norm(x.half(), (5,))), "f32[3,4,5]", "f32[5]", "f32[5]")
    add("rms_norm", lambda x, w: (F.rms_norm(x, (5,), w), F.rms_norm(x, (4, 5), eps=1e-3)), "f32[3,4,5]", "f32[5]")
    add("group_norm", lambda x, w, b: (F.group_norm(x, 2, w, b), F.instance_norm(x)), "f32[3,4,5,2]", "f32[4]", "f32[4]")
    add("batch_norm", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), "f32[3,4,5]", "f32[4]", "f32[4]>0", "f32[4]", "f32[4]")
    add("batch_norm_training", lambda x, m, v, w: F.batch_norm(x, m, v, w, training=True), "f32[3,4,5]", "f32[4]", "f32[4]>0", "f32[4]")
    add("conv1d", lambda x, w, b: (F.conv1d(x, w, b), F.conv1d(x, w, b, stride=2, padding=1), F.conv1d(x, w, padding="same", dilation=2)), "f32[2,3,9]", "f32[4,3,3]", "f32[4]")
    add("conv2d", lambda x, w, b: (F.conv2d(x, w, b, padding=1), F.conv2d(x, w, b, (2, 1), (1, 0)), F.conv2d(x[0], w)), "f32[2,3,6,5]", "f32[4,3,3,3]", "f32[4]")
    add("conv_groups", lambda x, w: (F.conv2d(x, w, groups=2), F.conv2d(x, w, groups=2, dilation=2, padding=2)), "f32[2,4,6,5]", "f32[6,2,3,3]")
    add("conv3d", lambda x, w: F.conv3d(x, w, padding=1), "f32[1,2,3,4,4]", "f32[3,2,3,3,3]")
    add("conv_transpose", lambda x, w, b: (F.conv_transpose2d(x, w, b, stride=2), F.conv_transpose2d(x, w, b, 2, 1, 1), F.conv_transpose2d(x, w[:, :1], groups=2, dilation=2)), "f32[2,4,3,4]", "f32[4,2,3,3]", "f32[2]")
    add("max_pool", lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, ceil_mode=True), F.max_pool1d(x[0], 2), F.max_pool2d(x, 2, dilation=2)), "f32[2,3,6,7]")
    add("avg_pool", lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool1d(x[0], 2), F.avg_pool2d(x, 2048, ceil_mode=True), F.max_pool2d(x, 9, 8, 1, ceil_mode=True)), "f32[2,3,6,7]")
    add("adaptive_pool", lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (2, 3))), "f32[2,3,6,6]")
    add("resized", lambda x: (F.interpolate(x, scale_factor=2.0), F.interpolate(x, (5, 7)), F.interpolate(x, scale_factor=2.0, mode="bilinear"), F.interpolate(x, (6, 3), mode="bilinear", align_corners=True)), "f32[2,3,4,5]")


def fourier(add: Add) -> None:
    """Add Fourier transforms. Complex results are returned as pairs of numbers."""
    pairs, rows = torch.view_as_real, torch.complex
    add("fft", lambda x, y: (pairs(f.fft.fft(rows(x, y), norm="ortho")), pairs(f.fft.ifft(rows(x, y), 7, 0)), pairs(f.fft.fft2(rows(x, y), norm="forward")), pairs(f.fft.ifftn(rows(x, y)))), *TWO)
    add("real_fft", lambda x, y: (pairs(f.fft.rfft(x)), pairs(f.fft.rfft2(x, norm="forward")), f.fft.irfft(rows(x, y), 6), f.fft.irfft2(rows(x, y)), f.fft.hfft(rows(x, y)), pairs(f.fft.fft(x)), pairs(f.fft.ihfft(x).resolve_conj())), *TWO)
    add("shifted_fft", lambda x: (f.fft.fftshift(x), f.fft.ifftshift(x, 1), x * f.fft.fftfreq(5), x[:, :3] * f.fft.rfftfreq(5, 0.5)), *ONE)
    add("stft", lambda x: (pairs(f.stft(x, 8, 3, return_complex=True, window=f.hann_window(8))), pairs(f.stft(x[0], 8, win_length=6, center=False, normalized=True, return_complex=True, window=f.hamming_window(6)))), "f32[2,20]")
    add("istft", lambda x, y: (f.istft(rows(x, y), 8, 2, window=f.hann_window(8)), f.istft(rows(x, y)[0], 8, 2, length=9, center=False, window=f.blackman_window(8) + 0.5)), "f32[2,5,6]", "f32[2,5,6]")
    add("angle", lambda x, y: (f.angle(x), f.angle(rows(x, y)), pairs(rows(x, y).conj().resolve_conj())), *TWO)


def linear_algebra(add: Add) -> None:
    """Add factorizations. Each case returns the product of the factors, because the signs of singular vectors are not
    unique.
    """
    at = f.linalg
    add("cholesky", lambda x, b: (at.cholesky(x @ x.mT + f.eye(4)), at.cholesky(x @ x.mT + f.eye(4), upper=True), f.cholesky_solve(b, at.cholesky(x @ x.mT + f.eye(4))), f.cholesky_inverse(at.cholesky(x @ x.mT + f.eye(4)))), "f32[4,4]", "f32[4,3]")
    add("solve", lambda x, b: (at.solve(x + 4 * f.eye(4), b), at.solve(x + 4 * f.eye(4), b[..., 0]), at.solve(x + 4 * f.eye(4), b.mT, left=False), at.inv(x + 4 * f.eye(4))), "f32[2,4,4]", "f32[2,4,3]")
    add("solve_triangular", lambda x, b: (at.solve_triangular(x.tril() + 4 * f.eye(4), b, upper=False), at.solve_triangular(x.triu(), b, upper=True, unitriangular=True), at.solve_triangular(x.triu() + 4 * f.eye(4), b.mT, upper=True, left=False)), "f32[4,4]", "f32[4,3]")
    add("determinants", lambda x: (at.det(x), *at.slogdet(x), f.logdet(x @ x.mT + f.eye(4)), at.matrix_rank(x), at.matrix_power(x, 3)), "f32[2,4,4]")
    add("factors", lambda x: (at.qr(x)[0] @ at.qr(x)[1], at.svdvals(x), at.eigvalsh(x.mT @ x), at.pinv(x, rtol=1e-4), *(u @ f.diag(s) @ v for u, s, v in [at.svd(x, full_matrices=False)])), "f32[5,4]")
    add("distances", lambda x, y: (f.cdist(x, y), f.cdist(x, y, p=1.0), F.pdist(x), f.dist(x, y, 3), F.pairwise_distance(x, y), F.triplet_margin_loss(x, y, x + 1)), *TWO)


def samples(add: Add) -> None:
    """Add image sampling at runtime coordinates, embedding bags, uneven pools."""
    grids = [("bilinear", "zeros", False), ("nearest", "border", True), ("bicubic", "reflection", False)]
    add("grid_sample", lambda x, g: tuple(F.grid_sample(x, g * 1.2, mode, padding, corners) for mode, padding, corners in grids), "f32[2,3,5,6]", "f32[2,4,3,2]")
    add("affine_grid", lambda x, t: F.grid_sample(x, F.affine_grid(t, (2, 3, 4, 4), align_corners=False), align_corners=False), "f32[2,3,5,6]", "f32[2,2,3]")
    add("embedding_bag", lambda i, w, r: (F.embedding_bag(i, w), F.embedding_bag(i, w, mode="sum", per_sample_weights=r), F.embedding_bag(i.flatten(), w, f.tensor([0, 0, 4]), mode="max"), F.embedding_bag(i, w, mode="mean", padding_idx=3)), "i64[4,3]<6", "f32[6,5]", "f32[4,3]")
    add("uneven_pool", lambda x: (F.adaptive_avg_pool2d(x, (4, 5)), F.adaptive_avg_pool1d(x[0], 4), F.interpolate(x, (4, 9), mode="area")), "f32[2,3,6,7]")
    add("ranked", lambda x: (*f.median(x, 1), f.median(x), *f.kthvalue(x, 2, 0), *f.aminmax(x, dim=1), *f.cummax(x, 1), *f.cummin(x, 0), *f.std_mean(x, 1)), *ONE)
    add("named_result", lambda x: f.topk(x, 2), *ONE)
    add("placed", lambda x, v: (f.diagonal_scatter(x, v, -1), x.put(f.tensor([3, 9]), v[:2]), *f.hsplit(x, 5), *f.vsplit(x, [1, 4]), F.unfold(x[None, None], 2), F.fold(F.unfold(x[None, None], 2), (6, 5), 2)), "f32[6,5]", "f32[5]")
    add("matrix_parts", lambda x: (f.trace(x), f.diag_embed(x), f.diag_embed(x, 1, 0, 2), f.rot90(x), f.rot90(x, -1, (1, 0)), f.take(x, f.tensor([[0, 7], [-1, 29]])), f.linalg.cross(x[:, :3], x[:, 2:])), *ONE)
    add("outer_sums", lambda x, y: (f.addr(f.outer(x, y), x, y, beta=0.5, alpha=2), f.block_diag(f.outer(x, y), x)), "f32[4]", "f32[3]")
    add("shrunk", lambda x: (F.hardshrink(x, 0.4), F.softshrink(x, 0.3), f.heaviside(x, x * 0 + 0.5), f.special.ndtr(x), f.special.entr(x.abs()), f.nansum(f.where(x > 0, x, f.nan), 1), *f.std_mean(x, (0,), correction=0, keepdim=True)), *ONE)
    add("isin", lambda x, y: (f.isin(x, y), f.isin(x, y, invert=True)), "i64[6]<9", "i64[3]<9")
    add("quantized", lambda x: f.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), *ONE)
    add("special", lambda x: (f.special.i1e(x), f.special.i1(x), f.polygamma(1, x), f.special.zeta(x + 1, x), f.special.entr(x), f.arccosh(x + 1), f.signbit(x), f.nextafter(x, x + 1)), "f32[6]>0")


def losses(add: Add) -> None:
    """Add loss functions."""
    add("regression_losses", lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.huber_loss(x, y, delta=0.5), F.smooth_l1_loss(x, y, reduction="none")), *TWO)
    add("divergence", lambda x, y: (F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), F.kl_div(x.log_softmax(-1), y.log_softmax(-1), log_target=True)), *TWO)
    add("binary_losses", lambda x, y: (F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=y[0].sigmoid())), *TWO)
    add("cross_entropy", lambda x, t, w: (F.cross_entropy(x, t), F.cross_entropy(x, t, w), F.cross_entropy(x, t, ignore_index=2), F.cross_entropy(x, t, label_smoothing=0.1), F.cross_entropy(x, x.softmax(-1)), F.nll_loss(x, t, reduction="sum")), "f32[6,5]", "i64[6]<5", "f32[5]>0")
    add("cross_entropy_images", lambda x, t: (F.cross_entropy(x, t), F.cross_entropy(x, t, reduction="none")), "f32[2,4,3,3]", "i64[2,3,3]<4")


def trained(w: Any, v: Any, ids: Any, labels: Any) -> Any:
    def loss_of(w: Any, v: Any) -> Any:
        x = F.layer_norm(w[ids], (4,))
        q = F.gelu(x @ v).unflatten(-1, (2, 2)).transpose(1, 2)
        x = x + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(-2)
        return F.cross_entropy((x @ w.T).flatten(0, 1), labels.flatten())

    grads, loss = torch.func.grad_and_value(loss_of, argnums=(0, 1))(w, v)
    return loss, w - 0.1 * grads[0], v - 0.1 * grads[1]


def changed(x: Any, y: Any) -> Any:
    x = x.clone()
    x[:, 1:3] = y[:, :2]
    x[2].mul_(2)
    x.T[0].add_(1).relu_()
    x.view(-1)[::7].zero_()
    first, _ = x.chunk(2)
    first[0].fill_(5)
    x[y > 1] = -1.0
    return x, first, x.sum()


def masked(x: Any, y: Any, row: Any, v: Any) -> Any:
    elements, rows, columns = (x.clone() for _ in range(3))
    elements[y > 0.5] = 2.0
    rows[x[:, 0] > 0] = v[0]
    columns[:, row > 0] = v[:, :1]
    return elements, rows, columns, x.masked_scatter(y > 0.5, y), x.masked_scatter(row > 0, v), x.index_put((y > 0,), v[0, 0], accumulate=True)


def updates(add: Add) -> None:
    """Add a training step, and functions that change tensors in place."""
    add("trained", trained, "f32[7,4]", "f32[4,4]", "i64[3,6]<7", "i64[3,6]<7")
    add("cosine", lambda x, y: F.cosine_similarity(x, y), *TWO)
    add("in_place", changed, *TWO)
    add("masked", masked, "f32[6,5]", "f32[6,5]", "f32[5]", "f32[6,5]")
    add("masked_rows", lambda x, m, v: x.index_put((f.stack([m, ~m], 1).flatten(),), v), "f32[6,5]", "i1[3]", "f32[3,5]")


def recurrent(add: Add) -> None:
    """Add recurrent layers and their cells."""
    states, gates = ("f32[2,3,4]", "f32[2,3,4]"), lambda n: [f"f32[{n * 4},5]", f"f32[{n * 4},4]", f"f32[{n * 4}]", f"f32[{n * 4}]"]
    add("lstm", lambda x, h, c, *w: torch.lstm(x, (h, c), [*w, *(tensor * 0.5 for tensor in w)], True, 1, 0.0, False, True, False), "f32[6,3,5]", *states, *gates(4))
    add("lstm_layers", lambda x, h, c, w, u, p: torch.lstm(x, (h, c), [w, u, p, w[:, :4], u, p], False, 2, 0.0, False, False, True), "f32[3,6,5]", "f32[2,3,4]", "f32[2,3,7]", "f32[28,5]", "f32[28,4]", "f32[4,7]")
    add("gru", lambda x, h, *w: torch.gru(x, h, [*w, *(tensor * 0.5 for tensor in w)], True, 1, 0.0, False, True, False), "f32[6,3,5]", "f32[2,3,4]", *gates(3))
    add("rnn", lambda x, h, *w: (*torch.rnn_tanh(x, h[:1], w, True, 1, 0.0, False, False, False), *torch.rnn_relu(x[:, 0], h[:1, 0], w[:2], False, 1, 0.0, False, False, False)), "f32[6,3,5]", "f32[2,3,4]", *gates(1))
    add("cells", lambda x, h, c, w, u: (*torch.lstm_cell(x, (h, c), w, u), torch.gru_cell(x, h, w[:12], u[:12]), torch.rnn_tanh_cell(x, h, w[:4], u[:4])), "f32[3,5]", "f32[3,4]", "f32[3,4]", "f32[16,5]", "f32[16,4]")


def control_flow(add: Add) -> None:
    """Add loops, branches and maps."""
    add("while_loop", lambda x: while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 0.9 + x), (torch.tensor(0), x)), *ONE)
    add("scan", lambda x, w: (*scan(lambda c, r: (c * w + r, (c - r, c.sum())), x[0].clone(), x, dim=0), *scan(lambda c, r: (c + r, c * r), x[:, 0].clone(), x, dim=1, reverse=True)), "f32[6,5]", "f32[5]")
    add("map", lambda x: mapped(lambda r: r.cumsum(0) * 2, x), *ONE)
    add("vmap", lambda x, y: torch.vmap(lambda r, s: (r @ s, r.cumsum(0)))(x, y), *TWO)
    add("cond_of_several", lambda x, w: torch.cond(x.sum() > 0, lambda x, w: (x * w, x.sum()), lambda x, w: (x - 1, w.max()), (x, w)), "f32[6,5]", "f32[5]")
    add("cond", lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), *ONE)


SECTIONS = (fourier, linear_algebra, samples, elementwise, reductions, shapes, indexing, products, layers, losses, updates, recurrent, control_flow, *op_cases.SECTIONS)

# Cases with gradients. `make_fx` decomposes the gradients before torch.export.
TRACED = ("trained",)


def module_of(name: str, function: Callable[..., Any], example_args: Sequence[Any]) -> Any:
    """Return a module for torch.export that calls `function`."""
    if name in TRACED or name.startswith("gradient_"):
        from torch.fx.experimental.proxy_tensor import make_fx

        return make_fx(function)(*example_args)

    class Case(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return Case()


def flat(result: Any) -> list[Any]:
    """Return the tensors of a result in order, as arrays."""
    return [tensor.detach().numpy() for tensor in torch.utils._pytree.tree_leaves(result)]


def written() -> bytes:
    """Return the content of the file of cases."""
    rows: dict[str, Any] = {}
    for name, (function, kinds) in cases().items():
        args = [torch.from_numpy(tensor) for tensor in arguments(name, kinds)]
        exported = serialized(torch.export.export(module_of(name, function, args), tuple(args)))
        document = json.loads(json.dumps(exported.document))
        for node in document["graph_module"]["graph"]["nodes"]:
            node["metadata"] = {}
        results = [{"dtype": str(tensor.dtype), "shape": list(tensor.shape), "numbers": [float(f"{v:.8g}") for v in tensor.ravel().astype(float)]} for tensor in flat(function(*args))]  # fmt: skip
        constants = {key: {"dtype": str(value.dtype), "shape": list(value.shape), "numbers": value.ravel().tolist()} for key, value in exported.constants.items()}  # fmt: skip
        rows[name] = {"arguments": kinds, "document": document, "constants": constants, "results": results}
    # so that paths in the file are relative to the repository
    text = json.dumps(rows, separators=(",", ":")).replace(f"{CASES_FILE.parents[3]}/", "")
    return gzip.compress(text.encode(), mtime=0)


if __name__ == "__main__":
    CASES_FILE.write_bytes(written())
