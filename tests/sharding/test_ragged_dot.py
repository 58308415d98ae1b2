"""Ragged dots with any sharding, also uneven: results, flops per device, and expert parallelism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.compilation import Compilation
from meshgen.ir.graph import Annotation, Graph, Module, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.classes import COMMUNICATING
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.flops import graph_flops
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.optimizations.group_row_uses import GroupRowUses
from meshgen.sharding.optimizations.masked_dot_to_ragged import masked_dot_to_ragged
from meshgen.spec import Sharding
from meshgen.testing.random_programs import find_fault

ROWS, K, COLUMNS, GROUPS = 11, 6, 5, 7
MESH = make_mesh({"x": 2, "y": 3})
NONE: tuple[tuple[str, ...], ...] = ((), (), ())
SPLITS = {  # dims of the left and the right operand
    "rows": ((("y",), ()), NONE),
    "columns": (((), ()), ((), (), ("x",))),
    "contracted": (((), ("y",)), NONE),
    "groups": (((), ()), (("y",), (), ())),
    "rows and groups": ((("x",), ()), (("y",), (), ())),
    "rows over both axes": ((("x", "y"), ()), NONE),
    "groups and contracted": (((), ()), (("x",), ("y",), ())),
}


def ragged(contracts: bool, mesh: Mesh = MESH) -> Module:
    """Return a ragged dot with random group bounds in 1 to 6, minus 3.

    Some groups are empty, some share rows, and some begin before the first row.
    """
    right = (ROWS, COLUMNS) if contracts else (GROUPS, K, COLUMNS)
    bounds = TensorType((GROUPS,), "i32")
    kinds = [TensorType((ROWS, K), "f32"), TensorType(right, "f32"), bounds, bounds]
    graph = Graph("main", [Value(kind, name) for kind, name in zip(kinds, "xwse", strict=True)])
    x, w, starts, sizes = graph.inputs
    moved = graph.add("subtract", [starts, sizes], [bounds]).result
    ends = graph.add("add", [starts, graph.add("add", [sizes, sizes], [bounds]).result], [bounds]).result
    result = TensorType((GROUPS, K, COLUMNS) if contracts else (ROWS, COLUMNS), "f32")
    graph.outputs = [graph.add("ragged_dot", [x, w, moved, ends], [result], {"contracts": contracts}).result]
    return Module(mesh, graph, in_annotations=[None] * 4, out_annotations=[None])


def required(dims: tuple[tuple[str, ...], ...]) -> Annotation:
    return Annotation(Sharding(dims), True, (False,) * len(dims))


def split(contracts: bool, name: str) -> Module:
    """Return the ragged dot with the sharding `name`. With contracted rows, the groups are a dim of the result."""
    left, right = SPLITS[name]
    module = ragged(contracts)
    if not contracts:
        return replace(module, in_annotations=[required(left), required(right), None, None])
    return replace(module, in_annotations=[required(left), None, None, None], out_annotations=[required(right)])


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("contracts", [False, True])
def test_ragged_dot_with_any_sharding_is_correct(contracts: bool, name: str) -> None:
    module = split(contracts, name)
    for seed in range(3):
        fault = find_fault(module, Options("cpu"), seed)
        assert fault is None, fault


@pytest.mark.parametrize(("name", "share"), [("rows", 4 / 11), ("columns", 3 / 5), ("groups", 3 / 7)])
def test_ragged_dot_flops_count_local_share_once(name: str, share: float) -> None:
    local = run_stages(split(False, name), Options("cpu"), Timing(), "partition")["partition"]
    (product,) = (node for node in local.graph.nodes if node.op == "ragged_dot")
    alone = replace(local.graph, nodes=[product])
    assert graph_flops(alone) == pytest.approx(2 * ROWS * K * COLUMNS * share)


@pytest.mark.parametrize("contracts", [False, True])
def test_ragged_dot_round_trips_at_every_stage(contracts: bool) -> None:
    for module in run_stages(split(contracts, "groups"), Options("cpu"), Timing(), "fuse").values():
        text = print_text(module)
        assert "sched.ragged_dot" in text and print_text(parse_text(text)) == text


DOT = """"chlo.ragged_dot"({x}, {w}, %sizes) <{{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1],
    rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}}> : ({types}, tensor<7xi32>) -> tensor<{result}xf32>"""
UP, DOWN = ("tensor<11x6xf32>, tensor<7x6x5xf32>", "11x5"), ("tensor<11x5xf32>, tensor<7x5x6xf32>", "11x6")
EXPERTS = """sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func @main(%x: tensor<11x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, {rows}>}}, %up: tensor<7x6x5xf32> {{sdy.sharding = #sdy.sharding<@mesh, {matrices}>}},
    %gate: tensor<7x6x5xf32> {{sdy.sharding = #sdy.sharding<@mesh, {matrices}>}}, %down: tensor<7x5x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}, {{}}]>}}, %sizes: tensor<7xi32>) -> ({results}) {{
  %h = {up}
  %g = {gate}
  %t = stablehlo.exponential %g : tensor<11x5xf32>
  %a = stablehlo.multiply %h, %t : tensor<11x5xf32>
  %y = {down}
  return {returned}
}}"""


def experts(rows: str, matrices: str, *, returns_hidden: bool = False) -> Module:
    """Return exp(x gate) (x up) down with the matrices of each row's expert. The last experts have no rows."""
    up, gate, down = (
        DOT.format(x=x, w=w, types=types, result=result)
        for x, w, (types, result) in (("%x", "%up", UP), ("%x", "%gate", UP), ("%a", "%down", DOWN))
    )
    kinds = ["tensor<11x6xf32>", "tensor<11x5xf32>"][: 1 + returns_hidden]
    returned = f"{', '.join(['%y', '%a'][: 1 + returns_hidden])} : {', '.join(kinds)}"
    results = [f"{kind} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}" for kind in kinds]
    return parse_text(EXPERTS.format(rows=rows, matrices=matrices, results=", ".join(results), up=up, gate=gate, down=down, returned=returned))  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "matrices"),
    [('[{}, {}]', '[{"y"}, {}, {}]'), ('[{"x"}, {}]', '[{"y"}, {}, {}]'), ('[{}, {"x"}]', '[{"y"}, {"x"}, {}]')],
)  # fmt: skip
def test_expert_parallel_reduces_only_last_dot(rows: str, matrices: str) -> None:
    """Of the three dots, only the last is reduced over y. If x is contracted as well, the first two stay partial over
    x.
    """
    module = experts(rows, matrices)
    stages = run_stages(module, Options("cpu"), Timing(), "partition")
    reductions = [node.attrs.axes for node in stages["partition"].graph.nodes if node.op == "all_reduce"]
    assert [axes for axes in reductions if "y" in axes] == [("y",)]
    for seed in range(3):
        fault = find_fault(module, Options("cpu"), seed)
        assert fault is None, fault


def test_expert_parallel_reduces_returned_hidden_rows() -> None:
    module = experts("[{}, {}]", '[{"y"}, {}, {}]', returns_hidden=True)
    stages = run_stages(module, Options("cpu"), Timing(), "partition")
    assert sum(node.op == "all_reduce" for node in stages["partition"].graph.nodes) == 3
    assert find_fault(module, Options("cpu")) is None


def test_expert_matmuls_are_sharded_by_groups() -> None:
    """Check two consecutive dots that are decided jointly.

    A decision for each dot alone would shard the columns, and gather 117 MB of hidden rows between the dots.
    """
    rows, width, hidden, groups = 32768, 512, 1024, 32
    up, down = f"tensor<{groups}x{width}x{hidden}xbf16>", f"tensor<{groups}x{hidden}x{width}xbf16>"
    split = '{sdy.sharding = #sdy.sharding<@mesh, [{"ep"}, {}, {}]>}'
    dot = DOT.replace("7xi32", f"{groups}xi32").replace("{result}xf32", "{result}xbf16")
    first = dot.format(x="%x", w="%up", types=f"tensor<{rows}x{width}xbf16>, {up}", result=f"{rows}x{hidden}")
    last = dot.format(x="%a", w="%down", types=f"tensor<{rows}x{hidden}xbf16>, {down}", result=f"{rows}x{width}")
    module = parse_text(f"""sdy.mesh @mesh = <["ep"=8]>
func.func @main(%x: tensor<{rows}x{width}xbf16>, %up: {up} {split}, %down: {down} {split}, %sizes: tensor<{groups}xi32>)
    -> tensor<{rows}x{width}xbf16> {{
  %h = {first}
  %a = stablehlo.tanh %h : tensor<{rows}x{hidden}xbf16>
  %y = {last}
  return %y : tensor<{rows}x{width}xbf16>
}}""")
    local = run_stages(module, Options("cpu"), Timing(), "partition")["partition"]
    moved = [node.result.type.sizes for node in local.graph.nodes if node.op in COMMUNICATING]
    assert all(sizes[-1] != hidden for sizes in moved if sizes)
    assert [node.attrs.group_axes for node in local.graph.nodes if node.op == "ragged_dot"] == [("ep",)] * 2


def test_chain_of_linear_ops_is_searched_once_per_value() -> None:
    """Each value of the chain doubles its predecessor, so there are 2^200 paths to the dot."""
    lines = "\n".join(f"  %y{i + 1} = stablehlo.add %y{i}, %y{i} : tensor<11x5xf32>" for i in range(200))
    dot = DOT.format(x="%x", w="%w", types=UP[0], result=UP[1])
    graph = parse_text(f"""func.func @main(%x: tensor<11x6xf32>, %w: tensor<7x6x5xf32>, %sizes: tensor<7xi32>, %z: tensor<11x5xf32>) -> tensor<11x5xf32> {{
  %y0 = {dot}
{lines}
  return %y200 : tensor<11x5xf32>
}}""").graph
    product = next(node for node in graph.nodes if node.op == "ragged_dot")
    assert GroupRowUses(graph.index.producers.get, graph.index.uses.__getitem__).product_of(graph.outputs[0]) is product
    sums = [node for node in graph.nodes if node.op == "add" and node.result.name.startswith("y")]
    sums[100].operands[1] = graph.inputs[3]
    second_analysis = GroupRowUses(graph.index.producers.get, graph.index.uses.__getitem__)
    assert (
        second_analysis.product_of(graph.outputs[0]) is None and second_analysis.product_of(sums[99].result) is product
    )


ROUNDED = """func.func @main(%x: tensor<4x3xf32>, %w: tensor<2x3x5xf32>, %start: tensor<2xi32>, %end: tensor<2xi32>) -> tensor<4x5xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<2x4x3xf32>
  %row = stablehlo.iota dim = 1 : tensor<2x4x3xi32>
  %starts = stablehlo.broadcast_in_dim %start, dims = [0] : (tensor<2xi32>) -> tensor<2x4x3xi32>
  %ends = stablehlo.broadcast_in_dim %end, dims = [0] : (tensor<2xi32>) -> tensor<2x4x3xi32>
  %from = stablehlo.compare GE, %row, %starts : (tensor<2x4x3xi32>, tensor<2x4x3xi32>) -> tensor<2x4x3xi1>
  %to = stablehlo.compare LT, %row, %ends : (tensor<2x4x3xi32>, tensor<2x4x3xi32>) -> tensor<2x4x3xi1>
  %mask = stablehlo.and %from, %to : tensor<2x4x3xi1>
  %spread = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4x3xf32>) -> tensor<2x4x3xf32>
  %masked = stablehlo.select %mask, %spread, %zero : tensor<2x4x3xi1>, tensor<2x4x3xf32>
  %narrow = stablehlo.convert %masked : (tensor<2x4x3xf32>) -> tensor<2x4x3x{narrow}>
  %wide = stablehlo.convert %narrow : (tensor<2x4x3x{narrow}>) -> tensor<2x4x3xf32>
  %y = stablehlo.dot_general %wide, %w, contracting_dims = [0, 2] x [0, 1] : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}}"""


@pytest.mark.parametrize(
    ("narrow", "op"), [("i32", "ragged_dot"), ("bf16", "ragged_dot"), ("f8E8M0FNU", "dot_general")]
)
def test_masked_dot_with_conversions_keeps_rounding(narrow: str, op: str) -> None:
    """f8E8M0FNU has no zero, so masked rows contribute to the result and the dot stays dense."""
    module = parse_text(ROUNDED.format(narrow=narrow))
    rewritten = masked_dot_to_ragged(module, Compilation())
    assert [node.op for node in rewritten.graph.nodes if node.op.endswith(("_dot", "dot_general"))] == [op]
    x = np.linspace(1.1, 4.9, 12, dtype=np.float32).reshape(4, 3)
    arguments = [x, np.ones((2, 3, 5), np.float32), np.array([0, 1], np.int32), np.array([1, 4], np.int32)]
    before, after = (evaluate(variant.graph, arguments)[0] for variant in (module, rewritten))
    np.testing.assert_array_equal(after, before)
