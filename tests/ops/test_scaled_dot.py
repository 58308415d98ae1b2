"""Tests of the scaled_dot op: semantics of packed and plain weights, types, sharding rule and FLOPs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_op import normal, run

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.flops import node_flops
from meshgen.ops.registry import rule_of
from meshgen.ops.types.inference import verify_node

PACKED = "m g i p, n g i, n g, n g -> m n"
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_scaled_dot_unpacks_and_scales_by_group(bits: int) -> None:
    count = 8 // bits
    numbers = RANDOM.integers(0, 2**bits, (6, 3, 5, count))
    packed = (numbers << np.arange(0, 8, bits)).sum(-1).astype(np.uint8)
    x, scale, zero = normal(4, 3, 5, count), normal(6, 3, seed=1), normal(6, 3, seed=2)
    result = run("scaled_dot", x, packed, scale, zero, factors=PACKED, bits=bits)
    weights = (numbers - zero[..., None, None]) * scale[..., None, None]
    np.testing.assert_allclose(result, np.einsum("mgip,ngip->mn", x, weights), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("factors", "sum", "shape"), [
    ("m k, n k, n -> m n", "mk,nk,n->mn", (6,)),  # per channel
    ("m k, n k, () -> m n", "mk,nk,->mn", ()),  # per tensor
    ("m k, k n, k -> m n", "mk,kn,k->mn", (5,)),  # per contracted index
])  # fmt: skip
def test_scale_may_have_any_factors_of_the_weights(factors: str, sum: str, shape: tuple[int, ...]) -> None:
    sizes = {"m": 4, "n": 6, "k": 5}
    weight_shape = tuple(sizes[f] for f in factors.split(",")[1].split())
    x, numbers, scale = normal(4, 5), RANDOM.integers(-100, 100, weight_shape).astype(np.int8), normal(*shape, seed=1)
    result = run("scaled_dot", x, numbers, scale, factors=factors)
    np.testing.assert_allclose(result, np.einsum(sum, x, numbers, scale), rtol=1e-4, atol=1e-3)


def node_of(factors: str, *kinds: str, bits: int = 0) -> Node:
    sizes = {"m": 4, "n": 6, "g": 3, "i": 5, "p": 2, "k": 8, "q": 3}
    sides = [[word.split() if word.strip() != "()" else [] for word in side.split(",")] for side in factors.split("->")]
    values = [[tuple(sizes[f] for f in word) for word in side] for side in sides]
    operands = [Value(TensorType(shape, kind)) for shape, kind in zip(values[0], kinds, strict=True)]
    results = [Value(TensorType(shape, kinds[0])) for shape in values[1]]
    return Node("scaled_dot", operands, results, {"factors": factors, "bits": bits})


def test_scaled_dot_rule_shards_groups_and_replicates_packed_dim() -> None:
    node = node_of(PACKED, "bf16", "ui8", "bf16", "bf16", bits=4)
    assert verify_node(node) == []
    assert rule_of(node).notation() == "m g i p, n g i, n g, n g -> m n reduce(g: sum) reduce(i: sum) whole(p)"
    assert node_flops(node) == 2 * 4 * 6 * 3 * 5 * 2 + 2 * 6 * 3 * 5 * 2


FAULTS = [
    (("m k, n k, n, n, n -> m n", "f32", "i8", "f32", "f32", "f32"), 0, "takes 3 or 4 operands"),
    (("m k, n k, n -> m n", "i32", "i8", "f32"), 0, "must be floats"),
    (("m k, n, n -> m n", "f32", "i8", "f32"), 0, "share no factor that is summed"),
    (("m k q, n k, n -> m n", "f32", "i8", "f32"), 0, "is neither in the result nor summed"),
    (("m k, n k, k n -> m n", "f32", "i8", "f32"), 0, "dims must be in the order"),
    (("m g i p, n g i, n -> m n", "f32", "i8", "f32"), 4, "packed numbers must be ui8, not i8"),
    (("m g i p, n g i, n -> m n", "f32", "ui8", "f32"), 3, "bits 3 must be 0, 1, 2 or 4"),
    (("m g i q, n g i, n -> m n", "f32", "ui8", "f32"), 4, "count the elements of a byte"),
    (("m g i, n g i, n -> m n", "f32", "ui8", "f32"), 4, "count the elements of a byte"),
]


@pytest.mark.parametrize(("parts", "bits", "message"), FAULTS)
def test_malformed_scaled_dot_is_refused(parts: Any, bits: int, message: str) -> None:
    assert any(message in fault.message for fault in verify_node(node_of(*parts, bits=bits)))
