"""Small collectives combined into one message: results, bytes, conditions, and absence of dependence cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from meshgen import api
from meshgen.codegen.fuse import fuse
from meshgen.codegen.missing_kernels import missing_kernel_faults
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.ops.types.inference import verify_node
from meshgen.runtime.simulate import simulate
from meshgen.sharding.collective_combine_large import collective_combine_large
from meshgen.sharding.optimizations.collective_combine import collective_combine, combined
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, whole_numbers

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")


def _collectives(module: Module) -> list[str]:
    return [node.op for node in module.graph.nodes if node.op in COLLECTIVES]


def _check(p: Program, outputs: Sequence[Value], expected: Sequence[str]) -> Module:
    """Check the collectives after the pass: results and bytes do not change, and definitions precede their uses."""
    before = p.local(*outputs)
    old = [(node.op, tuple(node.operands), tuple(node.results)) for node in before.graph.nodes]
    after = collective_combine(before)
    assert [(node.op, tuple(node.operands), tuple(node.results)) for node in before.graph.nodes] == old
    assert _collectives(after) == list(expected)
    assert total_bytes(after.graph, p.mesh) <= total_bytes(before.graph, p.mesh)
    _assert_well_formed(after.graph)
    args = [whole_numbers(str(v.type), seed) for seed, v in enumerate(p.graph.inputs)]
    for left, right in zip(simulate(before, args), simulate(after, args), strict=True):
        assert_array_equal(left, right)
    return after


def _assert_well_formed(graph: Graph) -> None:
    defined = set(graph.inputs)
    for node in graph.nodes:
        assert defined.issuperset(node.operands)
        assert not verify_node(node)
        defined.update(node.results)


def _reduced(p: Program, text: str, axis: str = "x", kind: str = "sum") -> Value:
    value = p.input(text, P(partial={axis: kind}))
    return p.add("all_reduce", [value], text, axes=(axis,), kind=kind, why=f"reduce {value.name}")


def test_combined_reductions_of_any_shape_keep_their_reasons() -> None:
    p = Program(x=3)
    after = _check(p, [_reduced(p, t) for t in ("f32[]", "f32[3,5]", "f32[1]", "f32[2,1,7]")], ["all_reduce"])
    (message,) = [node for node in after.graph.nodes if node.op == "all_reduce"]
    assert message.result.type == TensorType((1, 31), "f32")
    assert all(f"reduce arg{i}" in message.notes.why for i in range(4))
    assert "4 small all_reduces in one message" in message.notes.why


def test_collectives_combine_only_with_same_kind_dtype_and_axes() -> None:
    p = Program(x=2, y=2)
    kinds = [("f32[4]", "x", "sum"), ("f32[4]", "x", "max"), ("i32[4]", "x", "sum"), ("f32[4]", "y", "sum")]
    _check(p, [_reduced(p, *kind) for kind in kinds * 2], ["all_reduce"] * 4)


def test_reductions_combine_independent_of_axis_order() -> None:
    p = Program(x=2, y=3)
    values = [p.input("i32[4]", P(partial=("x", "y"))) for _ in range(2)]
    sums = [
        p.add("all_reduce", [v], "i32[4]", axes=axes, kind="sum")
        for v, axes in zip(values, (("x", "y"), ("y", "x")), strict=True)
    ]
    _check(p, sums, ["all_reduce"])


@pytest.mark.parametrize("sizes", [(4, 6), (5, 7), (1, 9)])
def test_gathers_of_any_dim_and_same_element_width_are_combined(sizes: tuple[int, int]) -> None:
    """Check also uneven gathers, whose packed tiles are longer than the results.

    A gather whose elements have another width stays separate.
    """
    p = Program(x=3)
    rows, columns = sizes
    gathered: list[Value] = []
    for text, spec, dim in ((f"f32[{rows},2]", P("x"), 0), (f"i32[2,{columns}]", P(None, "x"), 1),
                            (f"bf16[{rows}]", P("x"), 0), (f"ui32[2,{rows},2]", P(None, "x"), 1)):  # fmt: skip
        gathered.append(p.add("all_gather", [p.input(text, spec)], text, axes=("x",), dim=dim))
    _check(p, gathered, ["all_gather", "all_gather"])


def test_boolean_gathers_combine_only_with_booleans() -> None:
    p = Program(x=2)
    kinds = ["i1[5]", "i8[4]", "i1[3]"]
    values = [p.add("all_gather", [p.input(t, P("x"))], t, axes=("x",), dim=0) for t in kinds]
    before = p.local(*values)
    after = collective_combine(before)
    assert len(_collectives(after)) == 2
    args = [np.array([1, 0, 1, 1, 0], bool), np.arange(4, dtype=np.int8), np.array([0, 1, 1], bool)]
    for result, expected in zip(simulate(after, args), args, strict=True):
        assert_array_equal(result, expected)


@pytest.mark.parametrize("devices", [2, 3])
def test_uneven_reduce_scatters_of_any_dim_are_combined(devices: int) -> None:
    p = Program(x=devices)
    scattered: list[Value] = []
    for text, spec, dim in (("f32[5,2]", P("x"), 0), ("f32[3,4]", P(None, "x"), 1), ("f32[1]", P("x"), 0)):
        value = p.input(text, P(partial="x"))
        scattered.append(p.add("reduce_scatter", [value], text, spec, axes=("x",), dim=dim, kind="sum"))
    _check(p, scattered, ["reduce_scatter"])


def test_dependent_reductions_are_not_combined() -> None:
    p = Program(x=2)
    x, y = p.input("f32[4,6]", P(None, "x")), p.input("f32[4]", P(partial="x"))
    mean = p.add("all_reduce", [_row_sums(p, x)], "f32[4]", axes=("x",), kind="sum")
    spread = p.add("broadcast_in_dim", [mean], "f32[4,6]", P(None, "x"), dims=(0,))
    centered = p.add("subtract", [x, spread], "f32[4,6]", P(None, "x"))
    second = p.add("all_reduce", [_row_sums(p, centered)], "f32[4]", axes=("x",), kind="sum")
    third = p.add("all_reduce", [y], "f32[4]", axes=("x",), kind="sum")
    _check(p, [mean, second, third], ["all_reduce", "all_reduce"])


def _row_sums(p: Program, x: Value) -> Value:
    return p.add("reduce", [x, p.constant(0, "f32")], "f32[4]", P(partial="x"), dims=(1,), kind="add")


def test_combining_creates_no_dependence_cycle() -> None:
    """With a1 -> b1 and b2 -> a2, combining both a and both b would create a cycle."""
    p = Program(x=2)
    a1, b2 = _reduced(p, "f32[4]"), _reduced(p, "f32[4]", kind="max")
    c, d = p.input("f32[4]", P(partial={"x": "max"})), p.input("f32[4]", P(partial="x"))
    low = p.add("to_partial", [a1], "f32[4]", P(partial={"x": "max"}), axes=("x",), kind="max")
    high = p.add("to_partial", [b2], "f32[4]", P(partial="x"), axes=("x",), kind="sum")
    b1_in = p.add("maximum", [low, c], "f32[4]", P(partial={"x": "max"}))
    a2_in = p.add("add", [high, d], "f32[4]", P(partial="x"))
    b1 = p.add("all_reduce", [b1_in], "f32[4]", axes=("x",), kind="max")
    a2 = p.add("all_reduce", [a2_in], "f32[4]", axes=("x",), kind="sum")
    before = p.local(a1, b2, b1, a2)
    after = collective_combine(before)
    _assert_well_formed(after.graph)
    args = [whole_numbers("f32[4]", seed) for seed in range(4)]
    for left, right in zip(simulate(before, args), simulate(after, args), strict=True):
        assert_array_equal(left, right)


def test_combining_delays_elementwise_users_but_not_dots() -> None:
    p = Program(x=2)
    first = _reduced(p, "f32[4,4]")
    scaled = p.add("negate", [first], "f32[4,4]")
    dims: dict[str, Any] = {
        "lhs_batch": (),
        "rhs_batch": (),
        "lhs_contract": (1,),
        "rhs_contract": (0,),
        "precision": (),
    }
    product = p.add("dot_general", [scaled, scaled], "f32[4,4]", **dims)
    late = _reduced(p, "f32[4]")
    _check(p, [product, late], ["all_reduce", "all_reduce"])

    p = Program(x=2)
    first = _reduced(p, "f32[4,4]")
    scaled = p.add("negate", [first], "f32[4,4]")
    late = _reduced(p, "f32[4]")
    product = p.add("dot_general", [scaled, scaled], "f32[4,4]", **dims)
    after = _check(p, [product, late], ["all_reduce"])
    order = [node.op for node in after.graph.nodes]
    assert order.index("all_reduce") < order.index("negate") < order.index("dot_general")


def _local(mesh: Mesh, *shapes: str) -> Module:
    p = Program(x=1)
    p.mesh = mesh
    values = [_reduced(p, text) for text in shapes]
    return p.local(*values)


def test_combined_message_size_is_limited() -> None:
    mesh = Program(x=2).mesh
    large, medium, small = "f32[512,1024]", "f32[128,1024]", "f32[8]"
    medium_elements = 128 * 1024
    assert len(_collectives(collective_combine(_local(mesh, large, large, small)))) == 3
    for count, expected_sizes in (
        (22, [22 * medium_elements + 8]),
        (26, [22 * medium_elements, 4 * medium_elements + 8]),
    ):  # four latencies correspond to 11.8 MB
        sizes = [
            node.result.type.size
            for node in collective_combine(_local(mesh, *[medium] * count, small)).graph.nodes
            if node.op == "all_reduce"
        ]
        assert sizes == expected_sizes
    slow = replace(mesh, axes=tuple(replace(axis, latency=80e-6) for axis in mesh.axes))
    assert len(_collectives(collective_combine(_local(slow, *[medium] * 26, small)))) == 1


def test_reductions_over_one_device_are_removed() -> None:
    p = Program(x=1)
    assert _collectives(collective_combine(p.local(_reduced(p, "f32[2]"), _reduced(p, "f32[2]")))) == []


@pytest.mark.parametrize("seed", range(40))
def test_combining_keeps_results_of_random_programs(seed: int) -> None:
    before = _random_local(seed)
    after = optimize_local(before)
    _assert_well_formed(after.graph)
    assert total_bytes(after.graph, after.mesh) <= total_bytes(before.graph, before.mesh)
    optimized_twice = optimize(after)
    args = [whole_numbers(str(kind), i) for i, kind in enumerate(before.in_types)]
    for module in (after, optimized_twice):
        for left, right in zip(simulate(before, args), simulate(module, args), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-6)


def _random_local(seed: int) -> Module:
    """Return a random program of sums and element-wise ops on integers."""
    rng = np.random.default_rng(seed)
    p = Program(x=2, y=int(rng.integers(1, 4)))
    values: list[Value] = [p.input("i32[3,4]"), p.input("i32[3,4]")]
    for _ in range(int(rng.integers(4, 16))):
        axis = str(rng.choice(["x", "y"]))
        left, right = (values[int(i)] for i in rng.integers(0, len(values), 2))
        if rng.random() < 0.5:
            partial = p.add("to_partial", [left], "i32[3,4]", P(partial=axis), axes=(axis,), kind="sum")
            values.append(p.add("all_reduce", [partial], "i32[3,4]", axes=(axis,), kind="sum"))
        elif rng.random() < 0.3:
            tile = p.add("all_slice", [left], "i32[3,4]", P(None, axis), axes=(axis,), dim=1)
            values.append(p.add("all_gather", [tile], "i32[3,4]", axes=(axis,), dim=1))
        else:
            values.append(p.add(str(rng.choice(["add", "maximum"])), [left, right], "i32[3,4]"))
    return p.local(*values[-3:])


def test_collectives_are_combined_within_loop_body() -> None:
    p = Program(x=2)
    scalar, row = TensorType((), "i32"), TensorType((4,), "i32")
    condition, body = (Graph(name, [Value(scalar), Value(row), Value(row)]) for name in ("condition", "body"))
    limit = condition.add("constant", [], [scalar], {"value": np.int32(3)}).result
    attrs = {"direction": "LT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[0], limit], [TensorType((), "i1")], attrs).result]
    one = body.add("constant", [], [scalar], {"value": np.int32(1)}).result
    count = body.add("add", [body.inputs[0], one], [scalar]).result
    sums: list[Value] = []
    for value in body.inputs[1:]:
        partial = body.add("to_partial", [value], [row], {"axes": ("x",), "kind": "sum"}).result
        partial.sharding = Sharding(((),), (("x", "sum"),))
        sums.append(body.add("all_reduce", [partial], [row], {"axes": ("x",), "kind": "sum"}).result)
    body.outputs = [count, sums[1], sums[0]]
    initial_values = [p.input("i32[]"), p.input("i32[4]"), p.input("i32[4]")]
    loop = p.graph.add("while", initial_values, [scalar, row, row])
    loop.regions = (condition, body)
    for value in loop.results:
        value.sharding = Sharding(((),) * value.type.rank)
    before = p.local(*loop.results)
    after = collective_combine(before)
    (node,) = [n for n in after.graph.nodes if n.op == "while"]
    assert [n.op for n in node.regions[1].nodes].count("all_reduce") == 1
    args = [np.zeros((), np.int32), np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)]
    for left, right in zip(simulate(before, args), simulate(after, args), strict=True):
        assert_array_equal(left, right)


LARGE = "tensor<256x1024xf32>"
SUM = f"shard.all_reduce %{{}} on @g grid_axes = [0] : {LARGE} -> {LARGE}"
DOT = "stablehlo.dot_general %{}, %w, contracting_dims = [1] x [0] : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>"


def _spmd(*lines: str) -> str:
    results = [line.split(" ")[0] for line in lines if "all_reduce" in line]
    arguments = ", ".join(f"%{name}: {LARGE}" for name in "abcd")
    return "\n".join([
        "shard.grid @g(shape = 2)", f"func.func @f({arguments}, %w: tensor<1024x1024xf32>) -> ({', '.join([LARGE] * len(results))}) {{", *lines,
        f"  return {', '.join(results)} : {', '.join([LARGE] * len(results))}", "}",
    ])  # fmt: skip


def test_large_messages_are_combined_if_step_is_shorter() -> None:
    """Check four consecutive sums, each of which waits for the link latency; they are combined.

    Sums that overlap with dots stay separate.
    """
    tail = _spmd(*[f"%s{name} = {SUM.format(name)}" for name in "abcd"])
    executable = api.plan(tail, target="cpu")
    assert [row.kind for row in executable.comms] == ["all_reduce"]
    dots = [f"%d{i} = {DOT.format(f'd{i - 1}' if i else 'b')}" for i in range(60)]
    hidden = _spmd(f"%sa = {SUM.format('a')}", *dots, f"%sb = {SUM.format('d59')}")
    executable = api.plan(hidden, target="cpu")
    assert len(executable.comms) == 2 and executable.comms[0].exposed_seconds < 1e-12
    # Combining saves one latency, which is below the threshold for such a long step, so the pass does not even try it.
    assert not executable.passes["collective-combine-large"].fired
    larger = combined(executable.stages["partition"], DEFAULT.messages.larger_share)
    assert _collectives(larger) == ["all_reduce"]


def test_combined_module_is_unchanged_by_second_pass() -> None:
    combined_module = collective_combine(_local(Program(x=2).mesh, "f32[8]", "f32[9]"))
    assert collective_combine_large(combined_module) is combined_module


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_gathers_of_dtypes_without_kernels_are_not_combined(dtype: str) -> None:
    """Kernels pack and unpack each combined message, so its dtype must have kernels."""
    p = Program(x=2)
    values = [p.input(f"{dtype}[8]", P("x")) for _ in range(3)]
    gathered = [p.add("all_gather", [value], f"{dtype}[8]", axes=("x",), dim=0) for value in values]
    fused = fuse(collective_combine(p.local(*gathered)))
    assert not missing_kernel_faults((body, 1) for body in fused.kernels.values())
    assert _collectives(fused) == ["all_gather"] * (1 if dtype in TRITON_TYPES else 3)


def test_small_complex_and_int4_gathers_compile_for_gpus(tmp_path: Path) -> None:
    sharded = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'
    replicated = "{sdy.sharding = #sdy.sharding<@mesh, [{}]>}"
    types = ["tensor<8xcomplex<f32>>", "tensor<16xcomplex<f32>>", "tensor<8xi4>", "tensor<16xi4>"]
    inputs = ", ".join(f"%a{n}: {kind} {sharded}" for n, kind in enumerate(types))
    results = ", ".join(f"{kind} {replicated}" for kind in types)
    text = f'sdy.mesh @mesh = <["x"=4]>\nfunc.func @main({inputs}) -> ({results}) {{\n  return %a0, %a1, %a2, %a3 : {", ".join(types)}\n}}\n'
    executable = api.compile(text, target="cuda:sm_90")
    assert [row.kind for row in executable.comms] == ["all_gather"] * 4
    executable.save(tmp_path / "m.mgx")
    assert api.load(tmp_path / "m.mgx").ranks == 4
