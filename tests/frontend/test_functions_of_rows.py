"""Reductions, running sums, sorts, searches and matmuls, compared with NumPy on three devices."""

from __future__ import annotations

import pytest

from tests.frontend.numpy_expressions import check

REDUCED = (
    "x.sum()", "xp.sum(z, axis=(0, 2), keepdims=True)", "xp.sum(i, axis=1)", "xp.sum(x, axis=0, where=b)", "xp.sum(x, dtype=xp.float32)", "xp.prod(x, axis=1)",
    "xp.prod(x, where=b)", "xp.mean(x, axis=0)", "xp.mean(x, axis=0, where=i < 8)", "x.mean()", "xp.max(x, axis=1)", "xp.min(z, axis=(0, 1))", "xp.max(i)",
    "xp.max(x, axis=0, initial=0.5, where=b)", "x.min(1)", "xp.var(x, axis=1)", "xp.var(x, axis=1, correction=1)", "x.var(ddof=1)", "xp.std(z, axis=(0, 1))",
    "x.std(0, keepdims=True)", "xp.std(x, axis=0, where=i < 8)", "xp.any(b, axis=0)", "xp.all(i, axis=1)", "xp.count_nonzero(i, axis=0)", "xp.ptp(x, axis=1)",
    "xp.amax(e)", "xp.sum(b)", "xp.mean(c, axis=0)", "xp.sum(c)",
)  # fmt: skip
RUNNING = (
    "xp.cumulative_sum(v)", "xp.cumulative_sum(x, axis=1)", "xp.cumsum(x, axis=0)", "xp.cumsum(x)", "xp.cumsum(i, 1)", "x.cumsum(0)", "xp.cumulative_sum(x, axis=0, include_initial=True)",
    "xp.cumulative_prod(x, axis=1)", "x.cumprod(0)", "xp.cumsum(x, axis=1, dtype=xp.float32)", "xp.cumsum(b, 0)", "xp.cumulative_prod(x, axis=1, include_initial=True)",
)  # fmt: skip
SEARCHED = (
    "xp.argmax(x, axis=1)", "xp.argmin(x, axis=0)", "xp.argmax(x)", "x.argmax(1)", "xp.argmax(x, axis=1, keepdims=True)", "xp.argmin(z, keepdims=True)", "xp.argmax(e)",
    "xp.argmin(e)", "xp.argmax(b, axis=1)", "xp.argmin(i, axis=0)", "xp.sort(x, axis=1)", "xp.sort(x, axis=0)", "xp.sort(e)", "xp.sort(i, axis=None)", "xp.sort(b)",
    "xp.argsort(x, axis=1)", "xp.argsort(i, axis=0, stable=True)", "xp.argsort(v)", "x.argsort()",
    "xp.searchsorted(xp.sort(v), x)", "xp.searchsorted(xp.sort(n), n, side='right')", "xp.searchsorted(v, x, sorter=xp.argsort(v))", "xp.isin(i, n)",
    "xp.isin(i, n, invert=True)",
)  # fmt: skip
STATISTICS = (
    "xp.average(x, axis=0)", "xp.average(x, axis=1, weights=p)", "xp.average(z, axis=1, weights=v[:3] ** 2)", "xp.median(x, axis=1)", "xp.median(z)", "xp.median(x, axis=0, keepdims=True)",
    "xp.quantile(x, 0.3, axis=1)", "xp.quantile(z, [0.0, 0.25, 1.0], axis=(0, 2))", "xp.percentile(x, 90)", "xp.percentile(x, [10, 50], axis=0)", "xp.median(e)",
    "xp.nansum(e)", "xp.nanprod(f)", "xp.nanmean(e[2:5])", "xp.nanmax(f)", "xp.nanmin(xp.stack([e, f]), axis=0)", "xp.nansum(i, axis=0)", "xp.nanmax(i, axis=1)", "xp.nanmean(xp.stack([e, f]), axis=0)",
    "xp.cov(x)", "xp.cov(x, rowvar=False, ddof=0)", "xp.cov(v)", "xp.corrcoef(x)", "xp.digitize(x, xp.sort(v))", "xp.digitize(i, xp.sort(n[:2]), right=True)",
    "xp.histogram(i, xp.asarray([-9, -2, 3, 8]))[0]", "xp.interp(x, xp.sort(v), v)",
)  # fmt: skip
PRODUCTS = (
    "x @ y.T", "z @ z.mT", "xp.matmul(s, z)", "v @ v", "xp.dot(x, y.T)", "xp.dot(v, v)", "xp.dot(s[0], z)",
    "xp.tensordot(x, y)", "xp.tensordot(x, y, axes=((0,), (0,)))", "xp.tensordot(z, z, axes=([1, 2], [1, 2]))", "xp.tensordot(v, v, axes=0)", "xp.vecdot(x, y)",
    "xp.vecdot(z, z[:1], axis=1)", "xp.vecdot(c, c)", "xp.outer(v, n)", "xp.inner(x, y)", "xp.inner(v, v)", "xp.einsum('ij,kj->ik', x, y)",
    "xp.einsum('...ij,...jk->...ik', s, z)", "xp.einsum('...i,...i', x, y)", "xp.einsum('ii->i', s[0])", "xp.einsum('ii', s[0])", "xp.einsum('aij,aij->a', z, z)",
    "xp.einsum('...ii->...', s)", "xp.einsum('i...->...', z)", "xp.einsum('...i,ij->...j', z, y[:4])", "xp.einsum('ij,...j->...i', s[0], x[:, :3])",
    "xp.einsum('i...,i...->i...', z[:, :1], z)", "xp.einsum('...a,...a->...', z[:1, :1], z[:1, :1])", "xp.einsum('aii->ai', s)",
)  # fmt: skip


@pytest.mark.parametrize("text", REDUCED)
def test_reductions_match_numpy(text: str) -> None:
    check(text, REDUCED)


@pytest.mark.parametrize("text", RUNNING)
def test_running_reductions_match_numpy(text: str) -> None:
    check(text, RUNNING)


@pytest.mark.parametrize("text", SEARCHED)
def test_sorts_and_searches_match_numpy(text: str) -> None:
    check(text, SEARCHED)


@pytest.mark.parametrize("text", STATISTICS)
def test_statistics_match_numpy(text: str) -> None:
    check(text, STATISTICS)


@pytest.mark.parametrize("text", PRODUCTS)
def test_contractions_match_numpy(text: str) -> None:
    check(text, PRODUCTS)
