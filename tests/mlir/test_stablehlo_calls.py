"""Tests of CHLO, custom calls, composites and ops that are expanded on import: results, round trips, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.graph import Graph
from meshgen.mlir.stablehlo.custom_calls.targets import call_fault
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.random_bits import threefry

F, V = "tensor<4x6xf32>", "tensor<6xf32>"
X = np.linspace(-2, 2.6, 24, dtype=np.float32).reshape(4, 6)
ROW = np.linspace(1, 2, 6, dtype=np.float32)


def function(*body: str, result: str = F, arguments: str = f"%x: {F}, %y: {V}") -> str:
    return f"func.func @main({arguments}) -> ({result}) {{\n" + "\n".join(body) + "\n}\n"


def graph_of(*body: str, **signature: str) -> Graph:
    """Return the graph of a function whose text was printed and parsed again."""
    module = parse_text(function(*body, **signature))
    reparsed = parse_text(print_text(module))
    assert print_text(reparsed) == print_text(module)
    return reparsed.graph


WRITTEN: dict[str, tuple[tuple[str, ...], str, Any]] = {
    "broadcast": (
        (f"%0 = chlo.broadcast_add %x, %y : ({F}, {V}) -> {F}", f"return %0 : {F}"), F, X + ROW,
    ),
    "broadcast of listed dims": (
        (
            "%s = stablehlo.slice %y [0:4] : (tensor<6xf32>) -> tensor<4xf32>",
            f"%0 = chlo.broadcast_multiply %x, %s {{broadcast_dimensions = array<i64: 0>}} : ({F}, tensor<4xf32>) -> {F}",
            f"return %0 : {F}",
        ),
        F, X * ROW[:4, None],
    ),
    "broadcast_compare": (
        (
            '%0 = "chlo.broadcast_compare"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction GT>}> '
            f": ({F}, {V}) -> tensor<4x6xi1>",
            "return %0 : tensor<4x6xi1>",
        ),
        "tensor<4x6xi1>", X > ROW,
    ),
    "broadcast_compare as CHLO writes it": (
        (
            "%0 = chlo.broadcast_compare %x, %y {compare_type = #chlo<comparison_type FLOAT>, "
            f"comparison_direction = #chlo<comparison_direction GT>}} : ({F}, {V}) -> tensor<4x6xi1>",
            "return %0 : tensor<4x6xi1>",
        ),
        "tensor<4x6xi1>", X > ROW,
    ),
    "chlo.constant": ((f"%c = chlo.constant dense<2.0> : {F}", f"%0 = stablehlo.add %x, %c : {F}", f"return %0 : {F}"), F, X + 2),
    "is_inf": (
        (
            f"%z = stablehlo.subtract %x, %x : {F}",
            f"%i = stablehlo.divide %x, %z : {F}",
            f"%0 = chlo.is_neg_inf %i : {F} -> tensor<4x6xi1>",
            "return %0 : tensor<4x6xi1>",
        ),
        "tensor<4x6xi1>", X < 0,
    ),
    "constant_like, square, atan": (
        (
            f'%c = "chlo.constant_like"(%x) {{value = 3.5 : f32}} : ({F}) -> {F}',
            f"%s = chlo.square %c : {F} -> {F}",
            f"%a = chlo.atan %s : {F} -> {F}",
            f"return %a : {F}",
        ),
        F, np.full_like(X, np.arctan(12.25)),
    ),
    "known target": (
        (f'%0 = stablehlo.custom_call @mhlo.sinh(%x) {{backend_config = ""}} : ({F}) -> {F}', f"return %0 : {F}"),
        F, np.sinh(X),
    ),
    "least values": (
        (
            "%0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = false}} "
            f": ({F}) -> (tensor<4x2xf32>, tensor<4x2xi32>)",
            "return %0#0 : tensor<4x2xf32>",
        ),
        "tensor<4x2xf32>", X[:, :2],
    ),
    "note to a partitioner": (
        (
            f'%0 = stablehlo.custom_call @Sharding(%x) {{mhlo.sharding = "{{replicated}}"}} : ({F}) -> {F}',
            f"return %0 : {F}",
        ),
        F, X,
    ),
    "tuple and token": (
        (
            "%k = stablehlo.create_token : !stablehlo.token",
            "%l = stablehlo.after_all %k, %k : !stablehlo.token",
            f"%t = stablehlo.tuple %x, %y : tuple<{F}, {V}>",
            f"%0 = stablehlo.get_tuple_element %t[1] : (tuple<{F}, {V}>) -> {V}",
            f"return %0 : {V}",
        ),
        V, ROW,
    ),
    "composite": (
        (
            f'%0 = stablehlo.composite "my.negate" %x {{decomposition = @f}} : ({F}) -> {F}',
            f"return %0 : {F}",
            "}",
            f"func.func private @f(%v: {F}) -> {F} {{",
            f"%0 = stablehlo.negate %v : {F}",
            f"return %0 : {F}",
        ),
        F, -X,
    ),
    "map": (
        (
            '%0 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0, 1>}> ({',
            "^bb0(%p: tensor<f32>, %q: tensor<f32>):",
            "%c = stablehlo.constant dense<2.0> : tensor<f32>",
            "%m = stablehlo.multiply %p, %c : tensor<f32>",
            "%s = stablehlo.add %m, %q : tensor<f32>",
            "stablehlo.return %s : tensor<f32>",
            f"}}) : ({F}, {F}) -> {F}",
            f"return %0 : {F}",
        ),
        F, X * np.float32(2) + X,
    ),
    "sizes that are known": (
        (
            "%c = stablehlo.constant dense<1> : tensor<2xi32>",
            "%d = stablehlo.constant dense<[3, 5]> : tensor<2xi32>",
            "%z = stablehlo.constant dense<0.5> : tensor<f32>",
            "%e = stablehlo.add %c, %d : tensor<2xi32>",
            f"%0 = stablehlo.real_dynamic_slice %x, %c, %d, %c : ({F}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x4xf32>",
            "%1 = stablehlo.dynamic_pad %0, %z, %c, %c, %c : (tensor<2x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<5x9xf32>",
            "%2 = stablehlo.dynamic_reshape %1, %e : (tensor<5x9xf32>, tensor<2xi32>) -> tensor<9x5xf32>",
            "return %2 : tensor<9x5xf32>",
        ),
        "tensor<9x5xf32>",
        np.pad(np.insert(np.insert(X[1:3, 1:5], 1, 0.5, 0), [1, 2, 3], 0.5, 1), 1, constant_values=0.5).reshape(9, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_expanded_op_matches_numpy(name: str) -> None:
    body, result, reference = WRITTEN[name]
    (computed,) = evaluate(graph_of(*body, result=result), [X, ROW])
    assert computed.dtype == reference.dtype
    np.testing.assert_allclose(computed, reference, rtol=2**-22)


def test_rng_is_deterministic_and_has_its_distribution() -> None:
    def sample(distribution: str) -> np.ndarray[Any, Any]:
        shape = "%n = stablehlo.constant dense<[200, 50]> : tensor<2xi64>"
        ends = [f"%{name} = stablehlo.constant dense<{n}> : tensor<f32>" for name, n in (("a", 1.0), ("b", 3.0))]
        kind = "(tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<200x50xf32>"
        draw = f"%0 = stablehlo.rng %a, %b, %n, distribution = {distribution} : {kind}"
        graph = graph_of(shape, *ends, draw, "return %0 : tensor<200x50xf32>", result="tensor<200x50xf32>")
        return evaluate(graph, [X, ROW])[0]

    uniform, normal = sample("UNIFORM"), sample("NORMAL")
    assert (sample("UNIFORM") == uniform).all() and uniform.min() >= 1 and uniform.max() < 3
    # Means and deviations of 10,000 samples may differ by 5 standard errors.
    assert abs(uniform.mean() - 2) < 5 * (2 / 12**0.5) / 100
    assert abs(normal.mean() - 1) < 5 * 3 / 100 and abs(normal.std() - 3) < 5 * 3 / 100 / 2**0.5


def test_threefry_custom_call_is_expanded() -> None:
    words = [np.array([n, n + 9], np.uint32) for n in range(4)]
    kind = "tensor<2xui32>"
    graph = graph_of(
        f"%0:2 = stablehlo.custom_call @cu_threefry2x32(%a, %b, %c, %d) : ({', '.join([kind] * 4)}) -> ({kind}, {kind})",
        f"return %0#0, %0#1 : {kind}, {kind}",
        result=f"{kind}, {kind}",
        arguments=", ".join(f"%{n}: {kind}" for n in "abcd"),
    )
    np.testing.assert_array_equal(evaluate(graph, words), threefry((words[0], words[1]), (words[2], words[3])))


@mg.op_rule("b d, d f -> b f", name="my.gated")
def gated(x: Any, w: Any) -> Any:
    h = x @ w
    return h * mg.sigmoid(h)


def test_user_defined_op_is_called_by_name() -> None:
    text = function(
        "%0 = stablehlo.custom_call @my.gated(%x, %w) : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>",
        "return %0 : tensor<4x3xf32>",
        arguments="%x: tensor<4x6xf32>, %w: tensor<6x3xf32>",
        result="tensor<4x3xf32>",
    )
    exe = mg.compile(text, {"tp": 2}, in_specs={"w": mg.P(None, "tp")}, target="cpu")
    w = np.full((6, 3), 0.25, np.float32)
    h = X @ w
    # results are sums of 6 terms below 1
    np.testing.assert_allclose(exe(X, w), h / (1 + np.exp(-h)), rtol=0, atol=1e-5)
    assert not exe.comms.counts


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        (f"%0 = stablehlo.custom_call @mine(%x) : ({F}) -> {F}", "MG0103", "unknown custom_call target '@mine'"),
        (
            f"%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {{sdy.sharding = #sdy.sharding_per_value<[<@none, []>]>}} : ({F}) -> {F}",
            "MG0103",
            "calls back into Python",
        ),
        (f"%0 = stablehlo.custom_call @hipsolver_geqrf_ffi(%x) : ({F}) -> {F}", "MG0103", "factorization by a library"),
        (f"%0 = stablehlo.custom_call @my.gated(%x, %x) : ({F}, {F}) -> {F}", "MG0104", "contracted sizes differ"),
        (
            f'%0 = stablehlo.custom_call @Sharding(%x) {{mhlo.sharding = "{{devices=[2]<=[2]}}"}} : ({F}) -> {F}',
            "MG0204",
            "splits 1 dims of a tensor that has 2",
        ),
        (
            f"%b = chlo.broadcast_add %x, %y : ({F}, {V}) -> tensor<6x4xf32>\n%0 = stablehlo.negate %x : {F}",
            "MG0104",
            "cannot be broadcast",
        ),
    ],
)
def test_unsupported_call_is_refused(operation: str, code: str, text: str) -> None:
    with pytest.raises(ProgramError, match=text) as caught:
        graph_of(operation, f"return %0 : {F}")
    assert [d.code for d in caught.value.diagnostics] == [code] and caught.value.diagnostics[0].loc is not None


@pytest.mark.parametrize("target", ["ragged_all_to_all", "CustomSPMDPartitioning", "a$b"])
def test_help_suggests_op_rule_only_if_it_can_define_the_call(target: str) -> None:
    fault = call_fault(target)
    assert fault is not None and "op_rule" not in fault[1]
    other = call_fault("my_kernel")
    assert other is not None and "@mg.op_rule" in other[1]
