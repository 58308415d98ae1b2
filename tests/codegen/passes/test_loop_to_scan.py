"""Which loops become scans, and which slices rows: what the body has at each trip is known, inside the stack and aligned."""

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
ROW = 8  # elements of 4 bytes: 32 bytes


class Loop:
    """`trips` of: the rows of a stack at an index are added to the state, which is stacked at another one."""

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
        """An index from the counter."""
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
    """The scan that a loop becomes, which computes the same."""
    after = loop_to_scan(module)
    args = [np.random.default_rng(n).standard_normal(t.sizes).astype(np.float32) for n, t in enumerate(module.in_types)]
    for have, want in zip(simulate(after, args), simulate(module, args), strict=True):
        np.testing.assert_array_equal(have, want)
    (node,) = [node for node in after.graph.nodes if node.regions]
    assert node.op == "scan"
    return node


def test_rows_are_arguments_and_results() -> None:
    loop = Loop()
    loop.read(loop.times(2, 1))
    loop.write(loop.times(-1, 7))
    node = scan_of(loop.module())
    assert node.attrs.steps == {1: (7, -1), 2: (1, 2)}
    assert [value.type.sizes[0] for value in node.regions[0].inputs] == [1, 1, 1]
    assert [inner.op for inner in node.regions[0].nodes] == ["add"]


def test_a_row_that_is_read_before_it_is_written_is_the_one_before() -> None:
    loop = Loop()
    loop.read(loop.times(1), loop.stack)
    loop.write(loop.times(1))
    node = scan_of(loop.module())
    assert node.attrs.steps == {1: (0, 1)} and len(node.operands) == 2


@pytest.mark.parametrize("other", [0, 1])
def test_a_stack_that_is_read_elsewhere_is_carried_whole(other: int) -> None:
    loop = Loop()
    loop.read(loop.times(0, other), loop.stack)
    loop.write(loop.times(1))
    assert 2 not in scan_of(loop.module()).attrs.steps


def test_rows_that_overlap_are_carried_whole() -> None:
    loop = Loop()
    loop.write(loop.times(0, 3))
    assert not scan_of(loop.module()).attrs.sliced


def test_an_index_that_is_moved_inside_counts_as_it_is_used() -> None:
    beyond = Loop()
    beyond.read(beyond.times(0, 100))
    assert scan_of(beyond.module(1)).attrs.steps == {1: (7, 0)}
    bent = Loop(trips=6)
    bent.read(bent.times(2))
    assert not scan_of(bent.module(1)).attrs.sliced


def test_rows_that_are_not_aligned_are_sliced_by_kernels() -> None:
    loop = Loop(width=3)
    loop.read(loop.times(1))
    assert not scan_of(loop.module(1)).attrs.sliced


def test_an_index_of_the_data_is_not_known() -> None:
    loop = Loop()
    first = loop.body.add("convert", [loop.body.add("reshape", [loop.body.add("slice", [loop.state], [f32(1, 1)], {
        "start": (0, 0), "limit": (1, 1), "stride": (1, 1)}).result], [f32()]).result], [INT]).result  # fmt: skip
    loop.read(first)
    assert not scan_of(loop.module(1)).attrs.sliced


@pytest.mark.parametrize("start", [0, 3])
def test_what_a_counter_ends_at_is_a_constant(start: int) -> None:
    loop = Loop(start=start)
    loop.read(loop.times(1))
    module = loop.module(0, 1)
    assert all(value.type.rank for value in scan_of(module).regions[0].inputs)


def test_a_counter_that_is_computed_with_stays() -> None:
    loop = Loop()
    wide = loop.body.add("convert", [loop.counter], [f32()]).result
    spread = loop.body.add("broadcast_in_dim", [wide], [loop.state.type], {"dims": ()}).result
    loop.body.outputs[1] = loop.body.add("add", [loop.state, spread], [loop.state.type]).result
    assert scan_of(loop.module(0, 1)).regions[0].inputs[0].type == INT


def test_loops_of_unknown_length_and_of_no_trip_stay() -> None:
    endless = looped(5)
    endless.graph.nodes[0].op = "process_index"
    endless.graph.nodes[0].attrs = OverAxes(axes=("x",))
    for module in (endless, looped(0)):
        assert loop_to_scan(module) is module
