"""Tests of the `loop-to-scan` pass: which while loops become scans, and which slices a scan takes over."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.passes.loop_to_scan import loop_to_scan
from meshgen.ir.attributes.sharding import OverAxes
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.simulate import simulate
from meshgen.spec import P
from tests.codegen.passes.test_loop_unroll import looped, number
from tests.codegen.programs import f32

INT = TensorType((), "i32")
ROW = 8  # elements of a row: 8 x 4 bytes = 32 bytes


class Loop:
    """A while loop of `trips` iterations.

    An iteration adds rows of a stack to the state and may write the state to a stack.
    """

    def __init__(self, trips: int = 4, rows: int = 8, width: int = ROW, start: int = 0) -> None:
        self.graph = Graph("main", [Value(f32(1, width), "x"), Value(f32(rows, width), "w"), Value(f32(rows, width))])
        x, self.weights, empty = self.graph.inputs
        zero = number(self.graph, start)
        self.condition, self.body = (Graph("", [Value(INT), Value(x.type), Value(empty.type)]) for _ in range(2))
        compared = [self.condition.inputs[0], number(self.condition, start + trips)]
        attrs = {"direction": "LT", "compare_type": "SIGNED"}
        self.condition.outputs = [self.condition.add("compare", compared, [TensorType((), "i1")], attrs).result]
        self.counter, self.state, self.stack = self.body.inputs
        next_ = self.body.add("add", [self.counter, number(self.body, 1)], [INT]).result
        self.body.outputs = [next_, self.state, self.stack]
        self.loop = Node("while", [zero, x, empty], [Value(INT), Value(x.type), Value(empty.type)],
                         regions=(self.condition, self.body))  # fmt: skip

    def times(self, scale: int, plus: int = 0) -> Value:
        """Return the index `counter * scale + plus`."""
        product = self.body.add("multiply", [self.counter, number(self.body, scale)], [INT]).result
        return self.body.add("add", [product, number(self.body, plus)], [INT]).result

    def read(self, index: Value, stack: Value | None = None) -> None:
        row = self.body.add("dynamic_slice", [stack or self.weights, index, number(self.body, 0)], [self.state.type],
                            {"slice_sizes": self.state.type.sizes})  # fmt: skip
        self.body.outputs[1] = self.body.add("add", [self.body.outputs[1], row.result], [self.state.type]).result

    def write(self, index: Value) -> None:
        operands = [self.body.outputs[2], self.body.outputs[1], index, number(self.body, 0)]
        self.body.outputs[2] = self.body.add("dynamic_update_slice", operands, [self.stack.type]).result

    def module(self, *results: int) -> Module:
        self.graph.nodes.append(self.loop)
        self.graph.outputs = [self.loop.results[n] for n in results or (1, 2)]
        ins, outs = ([v.type for v in side] for side in (self.graph.inputs, self.graph.outputs))
        return Module(
            make_mesh({"x": 1}), self.graph, "partition", in_types=ins, out_types=outs,
            in_shardings=[P(*[None] * t.rank) for t in ins], out_shardings=[P(*[None] * t.rank) for t in outs],
        )  # fmt: skip


def scan_of(module: Module) -> Node:
    """Return the scan that a loop becomes, after checking that it computes the same."""
    after = loop_to_scan(module)
    args = [np.random.default_rng(n).standard_normal(t.sizes).astype(np.float32) for n, t in enumerate(module.in_types)]
    for have, want in zip(simulate(after, args), simulate(module, args), strict=True):
        np.testing.assert_array_equal(have, want)
    (node,) = [node for node in after.graph.nodes if node.regions]
    assert node.op == "scan"
    return node


def test_affine_slices_become_scan_operands_and_results() -> None:
    loop = Loop()
    loop.read(loop.times(2, 1))
    loop.write(loop.times(-1, 7))
    node = scan_of(loop.module())
    assert node.attrs.steps == {1: (7, -1), 2: (1, 2)}
    assert [value.type.sizes[0] for value in node.regions[0].inputs] == [1, 1, 1]
    assert [inner.op for inner in node.regions[0].nodes] == ["add"]


def test_row_read_before_its_update_is_sliced_from_the_initial_stack() -> None:
    loop = Loop()
    loop.read(loop.times(1), loop.stack)
    loop.write(loop.times(1))
    node = scan_of(loop.module())
    assert node.attrs.steps == {1: (0, 1)} and len(node.operands) == 2


@pytest.mark.parametrize("other", [0, 1])
def test_stack_read_at_another_index_is_carried(other: int) -> None:
    loop = Loop()
    loop.read(loop.times(0, other), loop.stack)
    loop.write(loop.times(1))
    assert 2 not in scan_of(loop.module()).attrs.steps


def test_stack_with_overlapping_updates_is_carried() -> None:
    loop = Loop()
    loop.write(loop.times(0, 3))
    assert not scan_of(loop.module()).attrs.sliced


def test_clamped_indices_are_sliced_only_if_affine() -> None:
    constant_index = Loop()
    constant_index.read(constant_index.times(0, 100))
    assert scan_of(constant_index.module(1)).attrs.steps == {1: (7, 0)}
    partly_clamped = Loop(trips=6)
    partly_clamped.read(partly_clamped.times(2))
    assert not scan_of(partly_clamped.module(1)).attrs.sliced


def test_unaligned_rows_are_sliced_in_the_body() -> None:
    loop = Loop(width=3)
    loop.read(loop.times(1))
    assert not scan_of(loop.module(1)).attrs.sliced


def test_data_dependent_index_is_sliced_in_the_body() -> None:
    loop = Loop()
    first = loop.body.add("convert", [loop.body.add("reshape", [loop.body.add("slice", [loop.state], [f32(1, 1)], {
        "start": (0, 0), "limit": (1, 1), "stride": (1, 1)}).result], [f32()]).result], [INT]).result  # fmt: skip
    loop.read(first)
    assert not scan_of(loop.module(1)).attrs.sliced


@pytest.mark.parametrize("start", [0, 3])
def test_final_counter_value_is_a_constant(start: int) -> None:
    loop = Loop(start=start)
    loop.read(loop.times(1))
    module = loop.module(0, 1)
    assert all(value.type.rank for value in scan_of(module).regions[0].inputs)


def test_counter_used_in_arithmetic_is_carried() -> None:
    loop = Loop()
    wide = loop.body.add("convert", [loop.counter], [f32()]).result
    spread = loop.body.add("broadcast_in_dim", [wide], [loop.state.type], {"dims": ()}).result
    loop.body.outputs[1] = loop.body.add("add", [loop.state, spread], [loop.state.type]).result
    assert scan_of(loop.module(0, 1)).regions[0].inputs[0].type == INT


def test_loops_with_unknown_or_zero_trip_count_are_unchanged() -> None:
    unbounded = looped(5)
    unbounded.graph.nodes[0].op = "process_index"
    unbounded.graph.nodes[0].attrs = OverAxes(axes=("x",))
    for module in (unbounded, looped(0)):
        assert loop_to_scan(module) is module
