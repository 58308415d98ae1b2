"""What a value needs to be loaded for, and that no kernel loads more for one of its values than its registers hold."""

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
    """How many loads each value takes where nothing but the inputs is in memory."""
    made, known, counter = graph.index.producers, dict[Value, Needed](), Loads()
    return {node.results[0]: len(counter.by(node, made.get, known)) for node in graph.nodes}


def test_what_is_computed_at_two_indices_is_loaded_for_twice() -> None:
    b = Body("f32[8]")
    (x,) = b.inputs
    y = b.op("multiply", part(b, x, 0, 2), part(b, x, 1, 2))
    z = b.op("add", pad(b, y, 0, 1), pad(b, y, 1, 0))
    total = b.reduce("add", z, 0)
    wide = b.op("multiply", b.wide(total, x, ()), x)
    again = b.op("add", b.op("exponential", part(b, x, 0, 2)), b.op("negate", part(b, x, 0, 2)))
    found = loads(b.done(z, wide, again))
    assert [found[v] for v in (y, z, total, wide, again)] == [2, 4, 4, 1, 1]


def scan(length: int, both: bool) -> Graph:
    """Sums of all first elements, evens from odds as JAX's `associative_scan` has them, of a product or of two."""
    b = Body(f"f64[{length}]", f"f64[{length}]")

    def sums(x: Value) -> Value:
        (size,) = x.type.sizes
        if size == 1:
            return x
        odd = sums(b.op("add", part(b, pad(b, x, 0, -1), 0, 2), part(b, x, 1, 2)))
        even = b.op("add", pad(b, part(b, odd, 0), 1, -1), part(b, x, 0, 2))
        return b.op("add", pad(b, even, 0, 1, 1), pad(b, odd, 1, 0, 1))

    found = sums(b.op("multiply", *b.inputs))
    return b.done(b.op("multiply", found, sums(b.op("tanh", found))) if both else found)


@pytest.mark.parametrize("both", [False, True])
def test_kernels_of_scans_load_no_more_for_a_value(both: bool) -> None:
    assert max(loads(scan(32, False)).values()) > 20 * DEFAULT.fusion.loads  # in one kernel
    graph = scan(64, both)
    module = fused(graph)
    for name, body in module.kernels.items():
        text = kernel_source(name, body, ONE).text
        assert len(re.findall(r"tl\.load\(", text)) <= DEFAULT.fusion.loads * len(body.outputs), name
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_a_loop_is_a_load_of_what_it_reduces_for_itself_only() -> None:
    b = Body("f32[4,8]", "f32[8,4]")
    x, y = b.inputs
    dot = b.dot(x, y, ((1,), (0,)))
    after = b.op("tanh", dot)
    found = loads(b.done(after))
    assert found[dot] == 2 and found[after] == 0


def test_what_is_made_from_nothing_is_not_computed_at_very_many_indices() -> None:
    """Each level reads the one before at three indices: 3^24 in one kernel."""
    b = Body("f32[32]")
    (x,) = b.inputs
    value = b.op("iota", to="f32[32]", dim=0)
    for _ in range(24):
        value = b.op("add", b.op("add", pad(b, value, 1, -1), pad(b, value, 2, -2)), b.op("tanh", pad(b, value, -1, 1)))
    graph = b.done(b.op("add", value, x))
    module = fused(graph)
    assert all(len(kernel_source(*each, ONE).text) < 40_000 for each in module.kernels.items())
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_what_is_looked_up_at_equal_indices_is_computed_once() -> None:
    """A value at an index, and at the one that a table has there, and so on: a chain, not a tree."""
    b = Body("f32[16]", "i32[16,1]")
    value, table = b.inputs
    for _ in range(12):
        found = b.op("gather", value, table, to="f32[16]", offset_dims=(), collapsed_slice_dims=(0,),
                     start_index_map=(0,), index_vector_dim=1, slice_sizes=(1,))  # fmt: skip
        value = b.op("add", found, value)
    for name, body in fused(b.done(value)).kernels.items():
        assert len(re.findall(r"tl\.minimum", kernel_source(name, body, ONE).text)) <= len(body.nodes)
