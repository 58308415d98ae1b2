"""Functions that move, join and index elements, compared with NumPy on three devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from tests.frontend.numpy_expressions import ARGS, check, compare

SHAPES = (
    "xp.reshape(x, (2, -1))", "x.reshape(5, 4)", "x.flatten()", "xp.ravel(z)", "xp.permute_dims(z, (2, 0, 1))", "xp.matrix_transpose(z)", "z.mT", "z.T",
    "z.swapaxes(0, 2)", "xp.moveaxis(z, 0, -1)", "xp.moveaxis(z, (0, 1), (1, 2))", "xp.expand_dims(x, axis=0)", "xp.expand_dims(x, axis=(0, -1))",
    "xp.squeeze(x[:1], axis=0)", "x[:, :1].squeeze()", "xp.broadcast_to(v, (3, 7))", "xp.broadcast_arrays(x, x[0])", "xp.atleast_2d(v)",
    "xp.atleast_1d(x[0, 0])", "x.copy()",
)  # fmt: skip
JOINED = (
    "xp.concat([x, y], axis=1)", "xp.concat([x, i], axis=None)", "xp.concatenate((v, v))", "xp.stack([x, y], axis=-1)", "xp.hstack([x, y])", "xp.hstack([v, v])",
    "xp.vstack([v, v])", "xp.unstack(x, axis=1)", "xp.split(x, 2)", "xp.split(v, [2, 5])", "xp.pad(x, 1)", "xp.pad(x, (1, 2))",
    "xp.pad(x, ((0, 1), (2, 0)), constant_values=3)", "xp.pad(v, 2, mode='edge')", "xp.pad(x, ((1, 0), (2, 3)), mode='reflect')", "xp.pad(v, 3, mode='wrap')",
    "xp.pad(v, (0, 2), mode='symmetric')", "xp.repeat(x, 3, axis=1)", "xp.repeat(x, 2)", "xp.repeat(v, [1, 0, 2, 1, 1, 3, 0])", "x.repeat(2, 0)",
    "xp.tile(x, (2, 1))", "xp.tile(v, 3)", "xp.tile(v, (2, 2))", "xp.tile(z, 2)", "xp.roll(x, 2)", "xp.roll(x, 1, axis=0)", "xp.roll(x, (1, -2), axis=(0, 1))",
    "xp.flip(z)", "xp.flip(x, axis=1)", "xp.flipud(x)", "xp.fliplr(z)", "xp.rot90(x)", "xp.rot90(x, 2)", "xp.rot90(z, -1, axes=(1, 2))", "xp.rot90(x, 4)",
    "xp.array_split(v, 3)", "xp.array_split(x, [1, 4], axis=1)", "xp.column_stack([v, v])", "xp.column_stack([x, y])", "xp.append(x, y, axis=1)", "xp.append(v, x)",
    "xp.diff(x)", "xp.diff(x, n=2, axis=0)", "xp.diff(v, prepend=v[:1], append=v[-1:])", "xp.diff(b)", "xp.kron(x[:2], y[:3, :2])",
)  # fmt: skip
INDEXED = (
    "x[1, 2]", "x[-1]", "x[:, 2]", "x[1:3, ::2]", "x[::-1]", "x[..., None]", "x[n]", "x[n, n]", "x[:, n]", "x[n, 1:3]", "x[2, n]", "x[n, 1]", "x[1:, n]", "z[:, n % 3]",
    "z[1, :, n]", "z[n % 2, :, n]", "z[n % 2, n % 3]", "z[n[:, None] % 2, :, n[None, :2]]", "z[..., n]", "z[None, :, n % 3, 1]", "z[:, n % 3, 1:3]", "x[-n]",
    "x[n[0]]", "x[n[0], n[1]]", "x[:, n[2]]", "z[n[0] % 2, 1:]", "x[[0, 2, -1]]", "x[[0, 1], [2, 3]]", "x[:, [1, 1]]", "x[n.reshape(2, 3)]", "v[n][::2]",
    "xp.take(x, n, axis=0)", "xp.take(x, n, axis=1)", "xp.take(x, n)", "v.take(n)", "xp.take_along_axis(x, abs(i) % 4, axis=0)",
    "xp.take_along_axis(x, abs(i[:, :2]) % 5, axis=1)", "xp.take_along_axis(x, n[None, :] % 5, axis=1)", "xp.diagonal(x)", "xp.diagonal(x, 1)", "z.diagonal(-1, 1, 2)",
    "x.trace()", "z.trace(1, 1, 2)",
)  # fmt: skip


@pytest.mark.parametrize("text", SHAPES)
def test_shape_functions_match_numpy(text: str) -> None:
    check(text, SHAPES)


@pytest.mark.parametrize("text", JOINED)
def test_joining_functions_match_numpy(text: str) -> None:
    check(text, JOINED)


@pytest.mark.parametrize("text", INDEXED)
def test_indexing_expressions_match_numpy(text: str) -> None:
    check(text, INDEXED)


def test_sizes_and_axes_accept_numpy_integers() -> None:
    def program(x: Any) -> Any:
        return x.reshape(np.int64(20)), x.sum(np.int32(1)), x.reshape((np.int64(4), -1)), mg.flip(x, np.int64(0))

    x = ARGS["x"]
    compare(mg.compile(program, {"d": 2}, args=[x], target="cpu")(x), (x.reshape(20), x.sum(1), x, np.flip(x, 0)))
