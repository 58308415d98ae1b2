"""JAX's shard_map over only some mesh axes. Inside its body, the other (free) axes are propagated and partitioned as in
the rest of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen.api import plan, read
from meshgen.compiled.executable import Executable
from meshgen.mlir.text import parse_text, print_text
from meshgen.reports.value_reasons import known_of
from meshgen.testing.oracle import check

jax = pytest.importorskip("jax")
lax, np_jax, P = jax.lax, jax.numpy, jax.sharding.PartitionSpec
MESH = jax.sharding.AbstractMesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
A = np.arange(96, dtype=np.float32).reshape(8, 12) / 64 - 1
W = np.arange(192, dtype=np.float32).reshape(12, 16) / 128 - 0.5
V = np.arange(160, dtype=np.float32).reshape(16, 10) / 100 - 0.5
RING = [(0, 1), (1, 0)]


def _lowered(function: Callable[..., Any], args: Any, specs: Any) -> Any:
    shardings = tuple(jax.sharding.NamedSharding(MESH, spec) for spec in specs)
    return jax.jit(function, in_shardings=shardings).trace(*args).lower(lowering_platforms=("cpu",))


def _mapped(body: Callable[..., Any], ins: Any, outs: Any) -> Callable[..., Any]:
    """Return `body` as a computation that is manual over x; the axis y is free."""
    return jax.shard_map(body, mesh=MESH, in_specs=ins, out_specs=outs, check_vma=False, axis_names={"x"})


def _layers(a: Any, w: Any, v: Any) -> Any:
    """Apply a column-parallel layer, then a row-parallel layer over y. Partitioning adds the sum over y inside the
    body; the sum over x is in the user's code.
    """
    return lax.psum(np_jax.tanh(a @ w) @ v, "x")


def _loop(a: Any, w: Any) -> Any:
    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        block, total = carry
        return (lax.ppermute(block, "x", RING), total + np_jax.tanh(block @ w)), None

    return lax.scan(step, (a, np_jax.zeros((a.shape[0], 16), a.dtype)), None, length=2)[0][1]


def _constrained(a: Any) -> Any:
    inner = lax.with_sharding_constraint(np_jax.tanh(a), jax.sharding.NamedSharding(MESH, P(None, "y")))
    return inner + lax.axis_index("x").astype(np.float32)


def _normalized(a: Any) -> Any:
    return a / np_jax.sum(a * a, axis=1, keepdims=True)


def _exchanged(a: Any) -> Any:
    return lax.all_to_all(np_jax.tanh(a), "x", 1, 0, tiled=True)


TANH = np.tanh(A @ W)
CASES: dict[str, tuple[Callable[..., Any], Any, list[Any], Any, dict[str, int]]] = {
    "columns": (_mapped(lambda a, w: lax.psum(np_jax.tanh(a @ w), "x"), (P("x"), P()), P()), (A, W),
                [P("x"), P(None, "y")], TANH[:4] + TANH[4:], {"all_reduce": 1}),
    "columns and rows": (_mapped(_layers, (P("x"), P(), P()), P()), (A, W, V), [P("x"), P(None, "y"), P("y", None)],
                         # one collective computes the sums over x and over y
                         (TANH[:4] + TANH[4:]) @ V, {"all_reduce": 1}),
    "loop": (_mapped(_loop, (P("x"), P()), P("x")), (A, W), [P("x"), P(None, "y")], np.tile(TANH[:4] + TANH[4:], (2, 1)),
             {"shift": 1}),  # the last shift has no user, so it is removed
    "constraint": (_mapped(_constrained, P("x"), P("x")), (A,), [P("x")], np.tanh(A) + np.repeat([[0], [1]], 4, 0), {}),
    "reduced over y": (_mapped(_normalized, P("x"), P("x")), (A,), [P("x", "y")], A / (A * A).sum(1, keepdims=True), {"all_reduce": 1}),
    "exchange": (_mapped(_exchanged, P("x"), P(None, "x")), (A,), [P("x")], np.tanh(A), {"all_to_all": 1}),
    "around": (lambda a, w: np_jax.sin(_mapped(lambda b: lax.psum(b, "x"), P("x"), P())(np_jax.tanh(a @ w))), (A, W),
               [P("x"), P(None, "y")], np.sin(TANH[:4] + TANH[4:]), {"all_reduce": 1}),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[str, Executable, Any]:
    function, args, specs, *_ = CASES[request.param]
    lowered = _lowered(function, args, specs)
    return request.param, plan(lowered, target="cpu"), read(lowered)[0]


def test_partly_manual_body_has_expected_results_and_collectives(case: tuple[str, Executable, Any]) -> None:
    """The plan has the collectives of the user whose results are used, and one all_reduce for each necessary sum over
    y.
    """
    name, executable, module = case
    _, args, _, expected, counts = CASES[name]
    result = check(module, pipeline=lambda _: executable.fused, args=list(args))
    assert result.ok and not result.outputs[0].unbounded, result.faults
    np.testing.assert_allclose(np.asarray(executable(*args)), expected, rtol=1e-5, atol=1e-5)
    assert executable.comms.counts == counts


def test_stages_of_partly_manual_body_round_trip_as_text(case: tuple[str, Executable, Any]) -> None:
    for stage in case[1].stages.values():
        assert print_text(parse_text(print_text(stage))) == print_text(stage)


def test_every_axis_of_partly_manual_body_is_explained(case: tuple[str, Executable, Any]) -> None:
    records = known_of(case[1])
    for record in records.values():
        if not record["note"]:  # a note says that no free axis splits the body of the value
            assert {chain["axis"] for chain in record["chains"]} | set(record["whole"]) == {"x", "y"}
        assert all("annotation [" in chain["annotation"] for chain in record["chains"])
    assert all(row.why and row.line for row in case[1].comms)


def test_manual_tiles_are_also_split_over_free_axis() -> None:
    function, args, specs, *_ = CASES["columns"]
    (row,) = plan(_lowered(function, args, specs), target="cpu").comms
    assert (row.axes, row.shape) == (("x",), (4, 4))  # 4 of 16 columns per device


def test_body_closed_to_free_axes_is_replicated_along_them() -> None:
    text = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x12xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%t: tensor<4x12xf32>) {
    %r = stablehlo.tanh %t : tensor<4x12xf32>
    sdy.return %r : tensor<4x12xf32>
  } : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}"""
    assert plan(text, target="cpu").comms.counts == {"all_gather": 1}
    assert plan(text.replace("{}]>] out", "{?}]>] out").replace("{}]>] manual", "{?}]>] manual"), target="cpu").comms.counts == {}  # fmt: skip
    assert plan(text.replace("{}]>] out", '{"y"}]>] out').replace("{}]>] manual", '{"y"}]>] manual'), target="cpu").comms.counts == {}  # fmt: skip


@pytest.mark.parametrize(("rows", "columns"), [(8, 10), (8, 3), (6, 1), (4, 13)])
def test_free_axis_tiles_may_be_uneven_or_empty(rows: int, columns: int) -> None:
    """Columns are split over the free axis y. Rows are split over the manual axis x; the rows of each tile are split
    over y too, evenly or not at all.
    """
    text = f"""sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<{rows}x{columns}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}}) -> (tensor<{rows}x{columns}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x", "y"}}, {{}}]>}}) {{
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x", ?}}, {{?}}]>] out_shardings=[<@mesh, [{{"x", ?}}, {{?}}]>] manual_axes={{"x"}} (%t: tensor<{rows // 2}x{columns}xf32>) {{
    %s = stablehlo.tanh %t : tensor<{rows // 2}x{columns}xf32>
    %r = "stablehlo.collective_permute"(%s) <{{source_target_pairs = dense<[[0, 4], [1, 5], [2, 6], [3, 7], [4, 0], [5, 1], [6, 2], [7, 3]]> : tensor<8x2xi64>}}> : (tensor<{rows // 2}x{columns}xf32>) -> tensor<{rows // 2}x{columns}xf32>
    sdy.return %r : tensor<{rows // 2}x{columns}xf32>
  }} : (tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
  return %0 : tensor<{rows}x{columns}xf32>
}}"""
    a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) / 16 - 1
    executable = plan(text, target="cpu")
    result = check(parse_text(text), pipeline=lambda _: executable.fused, args=[a])
    assert result.ok and not result.outputs[0].unbounded, result.faults
    np.testing.assert_allclose(np.asarray(executable(a)), np.tanh(np.roll(a, rows // 2, 0)), rtol=1e-6)
