"""Functions of random pytrees, called with permuted dicts, tuples in place of lists, and keywords. Results are compared
with NumPy and JAX.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ArgumentError

SHAPE = (4,)  # shape of all leaves, so that swapped leaves cause wrong results and not errors


class Pair(NamedTuple):
    first: Any
    second: Any


def structure(draw: random.Random, depth: int, leaf: Callable[[], Any]) -> Any:
    """Return a random pytree whose depth is at most `depth`."""
    kind = draw.choice(["leaf", "dict", "list", "tuple", "pair", "none"]) if depth else "leaf"
    branches = [structure(draw, depth - 1, leaf) for _ in range(draw.randint(1, 3))] if depth else []
    if kind == "dict":
        return dict(zip(draw.sample(["z", "b", "a_b", "W", "k1", "k10", "k2"], len(branches)), branches, strict=True))
    if kind == "pair":
        return Pair(branches[0], structure(draw, depth - 1, leaf))
    return None if kind == "none" else tuple(branches) if kind == "tuple" else branches if kind == "list" else leaf()


def weighted(tree: Any, weight: int = 1) -> Any:
    """Return a sum of all leaves with weights. The weight of a leaf depends on its path, so swapped leaves change the
    sum.
    """
    if tree is None:
        return 0.0
    if not isinstance(tree, (dict, list, tuple)):
        return tree * float(weight)
    keys = [sum(map(ord, key)) for key in tree] if isinstance(tree, dict) else range(7, 7 + len(tree))
    branches = tree.values() if isinstance(tree, dict) else tree
    return sum(
        (weighted(branch, (weight * 31 + key) % 997 + 1) for key, branch in zip(keys, branches, strict=True)), 0.0
    )


def shuffled(draw: random.Random, tree: Any) -> Any:
    """Return `tree` with permuted dicts. Some lists are replaced by tuples and some tuples by lists."""
    if isinstance(tree, dict):
        return {key: shuffled(draw, tree[key]) for key in draw.sample(list(tree), len(tree))}
    if isinstance(tree, Pair):
        return Pair(*(shuffled(draw, branch) for branch in tree))
    if isinstance(tree, (list, tuple)):
        return draw.choice([list, tuple])(shuffled(draw, branch) for branch in tree)
    return tree


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: mapped(branch, change) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        branches = [mapped(branch, change) for branch in tree]
        return Pair(*branches) if isinstance(tree, Pair) else type(tree)(branches)
    return None if tree is None else change(tree)


def program(p: Any, x: Any, q: Any) -> Any:
    return {"sum": x + weighted(p), "rest": [x * 2.0, Pair(x - weighted(q, 5), None)]}


def drawn(seed: int) -> tuple[random.Random, list[Any]]:
    draw, numbers = random.Random(seed), iter(range(1, 1000))
    arguments = [structure(draw, 3, lambda: np.full(SHAPE, next(numbers), np.float32)) for _ in range(2)]
    return draw, [arguments[0], np.arange(4, dtype=np.float32), arguments[1]]


def assert_equal_results(actual: Any, expected: Any) -> None:
    assert list(actual) == list(expected)
    # sums of integers below 2**24, which are exact in f32
    np.testing.assert_array_equal(actual["sum"], expected["sum"])
    np.testing.assert_array_equal(actual["rest"][1].first, expected["rest"][1].first)


@pytest.mark.parametrize("seed", range(12))
def test_traced_function_binds_arguments_by_key(seed: int) -> None:
    draw, args = drawn(seed)
    expected = program(*args)
    types = [mapped(tree, mg.spec) for tree in args]
    executable = mg.compile(program, {"x": 2}, args=[shuffled(draw, tree) for tree in types], target="cpu")
    for _ in range(3):
        p, x, q = (shuffled(draw, tree) for tree in args)
        assert_equal_results(executable(p, x, q), expected)
        assert_equal_results(executable(p, q=q, x=x), expected)
    recompiled = mg.compile(program, {"x": 2}, args=[shuffled(draw, tree) for tree in types], target="cpu")
    assert [value.name for value in recompiled.fused.graph.inputs] == [
        value.name for value in executable.fused.graph.inputs
    ]
    if isinstance(args[0], dict):
        with pytest.raises(ArgumentError, match=r"unknown argument 'p\.unknown'"):
            executable({**args[0], "unknown": args[1]}, *args[1:])


@pytest.mark.parametrize("seed", range(12, 20))
def test_jax_function_binds_arguments_like_jax(seed: int) -> None:
    jax = pytest.importorskip("jax")
    draw, args = drawn(seed)
    jitted = jax.jit(program)
    executable = mg.compile(
        jitted.lower(*(shuffled(draw, tree) if isinstance(tree, dict) else tree for tree in args)),
        {"x": 2},
        target="cpu",
    )
    for _ in range(3):
        p, x, q = (shuffled(draw, tree) for tree in args)
        actual, expected = executable(p, x=x, q=q), jitted(p, x, q)
        assert jax.tree.structure(actual) == jax.tree.structure(expected)
        jax.tree.map(np.testing.assert_array_equal, actual, expected)
