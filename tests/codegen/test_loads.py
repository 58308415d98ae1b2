"""Tests of load counts: the loads that computing a value takes, and the limit on loads per result of a kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest
from bodies import ONE, Body, random_args
from test_fuse import fused, run

from meshgen.codegen.fusion.loads import Loads, Needed
from meshgen.codegen.triton_source import kernel_source
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Value
from meshgen.ops.evaluate.evaluator import evaluate


def part(b: Body, value: Value, start: int, stride: int = 1) -> Value:
    (size,) = value.type.sizes
    return b.op("slice", value, start=(start,), limit=(size,), stride=(stride,))


def pad(b: Body, value: Value, low: int, high: int, interior: int = 0) -> Value:
    return b.op("pad", value, b.constant(0.0, value.type.dtype), low=(low,), high=(high,), interior=(interior,))


def loads(graph: Graph) -> dict[Value, int]:
    """Return the number of loads that each value takes if only the inputs are in memory."""
    producers, cached_loads, counter = graph.index.producers, dict[Value, Needed](), Loads()
    return {node.results[0]: len(counter.by(node, producers.get, cached_loads)) for node in graph.nodes}


def test_loads_are_counted_per_distinct_index() -> None:
    b = Body("f32[8]")
    (x,) = b.inputs
    y = b.op("multiply", part(b, x, 0, 2), part(b, x, 1, 2))
    z = b.op("add", pad(b, y, 0, 1), pad(b, y, 1, 0))
    total = b.reduce("add", z, 0)
    wide = b.op("multiply", b.wide(total, x, ()), x)
    shared_index = b.op("add", b.op("exponential", part(b, x, 0, 2)), b.op("negate", part(b, x, 0, 2)))
    load_counts = loads(b.done(z, wide, shared_index))
    assert [load_counts[v] for v in (y, z, total, wide, shared_index)] == [2, 4, 4, 1, 1]


def scan(length: int, nested: bool) -> Graph:
    """Return prefix sums in the even-odd form of JAX's `associative_scan`.

    The scanned values are products of two inputs. If `nested`, a second scan takes the results of the first.
    """
    b = Body(f"f64[{length}]", f"f64[{length}]")

    def sums(x: Value) -> Value:
        (size,) = x.type.sizes
        if size == 1:
            return x
        odd = sums(b.op("add", part(b, pad(b, x, 0, -1), 0, 2), part(b, x, 1, 2)))
        even = b.op("add", pad(b, part(b, odd, 0), 1, -1), part(b, x, 0, 2))
        return b.op("add", pad(b, even, 0, 1, 1), pad(b, odd, 1, 0, 1))

    prefix_sums = sums(b.op("multiply", *b.inputs))
    return b.done(b.op("multiply", prefix_sums, sums(b.op("tanh", prefix_sums))) if nested else prefix_sums)


@pytest.mark.parametrize("nested", [False, True])
def test_scan_kernels_stay_within_the_load_limit(nested: bool) -> None:
    assert max(loads(scan(32, False)).values()) > 20 * DEFAULT.fusion.loads  # if one kernel computed the entire scan
    graph = scan(64, nested)
    module = fused(graph)
    for name, body in module.kernels.items():
        text = kernel_source(name, body, ONE).text
        assert len(re.findall(r"tl\.load\(", text)) <= DEFAULT.fusion.loads * len(body.outputs), name
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_dot_loads_are_not_counted_for_its_users() -> None:
    b = Body("f32[4,8]", "f32[8,4]")
    x, y = b.inputs
    dot = b.dot(x, y, ((1,), (0,)))
    after = b.op("tanh", dot)
    load_counts = loads(b.done(after))
    assert load_counts[dot] == 2 and load_counts[after] == 0


def test_generated_values_are_not_recomputed_exponentially() -> None:
    """Check 24 levels that each read the previous level at three indices.

    A single kernel would compute the first level 3^24 times.
    """
    b = Body("f32[32]")
    (x,) = b.inputs
    value = b.op("iota", to="f32[32]", dim=0)
    for _ in range(24):
        value = b.op("add", b.op("add", pad(b, value, 1, -1), pad(b, value, 2, -2)), b.op("tanh", pad(b, value, -1, 1)))
    graph = b.done(b.op("add", value, x))
    module = fused(graph)
    assert all(len(kernel_source(*kernel, ONE).text) < 40_000 for kernel in module.kernels.items())
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_lookups_at_equal_indices_are_computed_once() -> None:
    """Check a chain of 12 steps v[i] = v[table[i]] + v[i]."""
    b = Body("f32[16]", "i32[16,1]")
    value, table = b.inputs
    for _ in range(12):
        gathered = b.op("gather", value, table, to="f32[16]", offset_dims=(), collapsed_slice_dims=(0,),
                     start_index_map=(0,), index_vector_dim=1, slice_sizes=(1,))  # fmt: skip
        value = b.op("add", gathered, value)
    for name, body in fused(b.done(value)).kernels.items():
        assert len(re.findall(r"tl\.minimum", kernel_source(name, body, ONE).text)) <= len(body.nodes)
