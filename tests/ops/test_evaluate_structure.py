"""Tests of the reference evaluator for ops that move data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import TensorType
from tests.ops.one_op import normal, run


def test_pad_negative_and_interior_matches_xla() -> None:
    lax = pytest.importorskip("jax.lax")
    x = normal(4, 3)
    for config in [
        ((1, 2, 0), (0, 0, 1)),
        ((-1, 0, 2), (2, -1, 0)),
        ((-2, -2, 1), (0, 0, 0)),
        ((3, -5, 1), (-1, 1, 3)),
    ]:
        low, high, interior = zip(*config, strict=True)
        result = run("pad", x, np.float32(9), low=low, high=high, interior=interior)
        assert (result == np.asarray(lax.pad(x, np.float32(9), config))).all()
    assert run("pad", np.zeros((0,), np.float32), np.float32(1), low=(2,), high=(0,), interior=(3,)).tolist() == [1, 1]


def test_slice_reverse_concatenate_iota_broadcast_match_numpy() -> None:
    x = np.arange(24).reshape(4, 6)
    assert (run("slice", x, start=(1, 0), limit=(4, 6), stride=(2, 5)) == x[1:4:2, ::5]).all()
    assert (run("reverse", x, dims=(1,)) == x[:, ::-1]).all()
    assert (run("concatenate", x, x[:0], x[:1], dim=0) == np.concatenate([x, x[:1]])).all()
    assert run("iota", results=[TensorType((2, 3), "bf16")], dim=1).tolist() == [[0, 1, 2]] * 2
    wide = run("broadcast_in_dim", x[:, :1], results=[TensorType((3, 7, 4), "i64")], dims=(2, 0))
    assert (wide == np.broadcast_to(x[:, 0][None, None], (3, 7, 4))).all()
    assert run("broadcast_in_dim", np.float32(2), results=[TensorType((2, 2), "f32")], dims=()).tolist() == [[2, 2]] * 2


GATHERS = [
    # Operand shape, indices, attributes. Cases: take, clamped windows, index vector in the first dim, batching dims.
    ((10, 4), [[0], [99], [-3]], {"offset_dims": (1,), "collapsed": (0,), "batching": ((), ()), "index_map": (0,), "vector": 1, "sizes": (1, 4)}),
    ((5, 6), [[0, 0], [4, 5], [2, -7]], {"offset_dims": (0, 2), "collapsed": (), "batching": ((), ()), "index_map": (1, 0), "vector": 1, "sizes": (2, 3)}),
    ((5, 6), [[0, 1, 2], [3, 2, 1]], {"offset_dims": (1,), "collapsed": (0,), "batching": ((), ()), "index_map": (0, 1), "vector": 0, "sizes": (1, 6)}),
    ((3, 5), [[0, 4], [1, 1], [9, 2]], {"offset_dims": (), "collapsed": (1,), "batching": ((0,), (0,)), "index_map": (1,), "vector": 2, "sizes": (1, 1)}),
]  # fmt: skip


@pytest.mark.parametrize("shape, indices, case", GATHERS)
def test_gather_matches_xla(shape: tuple[int, ...], indices: Any, case: dict[str, Any]) -> None:
    lax = pytest.importorskip("jax.lax")
    x, index = normal(*shape), np.array(indices, np.int32)
    result = run("gather", x, index, offset_dims=case["offset_dims"], collapsed_slice_dims=case["collapsed"],
                operand_batching_dims=case["batching"][0], start_indices_batching_dims=case["batching"][1],
                start_index_map=case["index_map"], index_vector_dim=case["vector"], slice_sizes=case["sizes"])  # fmt: skip
    numbers = lax.GatherDimensionNumbers(case["offset_dims"], case["collapsed"], case["index_map"], *case["batching"])
    last = index[..., None] if case["vector"] == index.ndim else np.moveaxis(index, case["vector"], -1)
    expected = lax.gather(x, last, numbers, case["sizes"], mode=lax.GatherScatterMode.CLIP)
    assert (result == np.asarray(expected)).all()


def test_dynamic_slice_indices_are_clamped() -> None:
    x = np.arange(12).reshape(3, 4)
    assert (run("dynamic_slice", x, np.int32(5), np.int32(-2), slice_sizes=(2, 3)) == x[1:, :3]).all()
    expected = x.copy()
    expected[1:, 2:] = 0
    assert (run("dynamic_update_slice", x, np.zeros((2, 2), np.int64), np.int32(1), np.int32(9)) == expected).all()
