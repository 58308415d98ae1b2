"""Common subexpression elimination: equal ops on equal values are computed once, including constants in any form."""

from __future__ import annotations

import pytest

from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.sharding.rewrites.cse import common_values, cse
from meshgen.sharding.rewrites.pad_sum_to_concatenate import pad_sum_to_concatenate


def program(*body: str, result: str) -> Module:
    lines = "\n".join(body)
    return parse_text(f"""
shard.grid @g(shape = 2) {{axis_names = ["x"]}}
func.func @f(%x: tensor<4x6xf32>, %n: tensor<i32>) -> ({result}) {{
{lines}
}}
""")


F = "tensor<4x6xf32>"
SUM = "stablehlo.reduce(%x init: {}) applies stablehlo.add across dimensions = [{}] : (tensor<4x6xf32>, tensor<f32>) -> tensor<{}xf32>"


def test_equal_ops_on_same_operands_are_merged() -> None:
    module = program(
        f"%a = stablehlo.tanh %x : {F}",
        f"%b = stablehlo.tanh %x : {F}",
        f"%c = stablehlo.negate %b : {F}",
        f"%d = stablehlo.negate %a : {F}",
        f"return %c, %d : {F}, {F}",
        result=f"{F}, {F}",
    )
    graph = cse(module).graph
    assert [node.op for node in graph.nodes] == ["tanh", "negate"]
    assert graph.outputs[0] is graph.outputs[1]
    assert {late.name: first.name for late, first in common_values(module.graph).items()} == {"b": "a", "d": "c"}


def test_equal_reduce_windows_are_merged() -> None:
    window = """"stablehlo.reduce_window"(%x, %p) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %s = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x6xf32>"""
    module = program(
        "%p = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%a = {window}",
        f"%b = {window}",
        "return %a, %b : tensor<2x6xf32>, tensor<2x6xf32>",
        result="tensor<2x6xf32>, tensor<2x6xf32>",
    )
    assert [node.op for node in cse(module).graph.nodes] == ["constant", "reduce_window"]


def test_scalar_pads_are_not_concatenated() -> None:
    module = program(
        "%p = stablehlo.constant dense<0.0> : tensor<f32>",
        "%q = stablehlo.constant dense<1.0> : tensor<f32>",
        "%a = stablehlo.pad %q, %p, low = [], high = [], interior = [] : (tensor<f32>, tensor<f32>) -> tensor<f32>",
        "%b = stablehlo.add %a, %q : tensor<f32>",
        "return %b : tensor<f32>",
        result="tensor<f32>",
    )
    assert pad_sum_to_concatenate.rewrite(module.graph) is None


def test_equal_constants_are_merged() -> None:
    module = program(
        "%p = stablehlo.constant dense<0.0> : tensor<f32>",
        "%q = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%a = {SUM.format('%p', 0, 6)}",
        f"%b = {SUM.format('%q', 0, 6)}",
        "return %a, %b : tensor<6xf32>, tensor<6xf32>",
        result="tensor<6xf32>, tensor<6xf32>",
    )
    graph = cse(module).graph
    assert graph.outputs[0] is graph.outputs[1]


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (SUM.format("%z", 0, 6), SUM.format("%z", 1, 4), ("6xf32", "4xf32")),
        (SUM.format("%z", 0, 6), SUM.format("%m", 0, 6), ("6xf32", "6xf32")),
        (f"stablehlo.convert %x : ({F}) -> tensor<4x6xf16>", f"stablehlo.convert %x : ({F}) -> tensor<4x6xbf16>",
         ("4x6xf16", "4x6xbf16")),
        (f"stablehlo.tanh %x : {F}", f"stablehlo.negate %x : {F}", ("4x6xf32", "4x6xf32")),
    ],
    ids=["dims", "-0 is not 0", "types", "ops"],
)  # fmt: skip
def test_different_ops_are_not_merged(first: str, second: str, result: tuple[str, str]) -> None:
    types = ", ".join(f"tensor<{kind}>" for kind in result)
    module = program(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
        "%m = stablehlo.constant dense<-0.0> : tensor<f32>",
        f"%a = {first}",
        f"%b = {second}",
        f"return %a, %b : {types}",
        result=types,
    )
    assert cse(module) is module


def test_regions_use_merged_values_of_outer_scope() -> None:
    module = program(
        f"%a = stablehlo.tanh %x : {F}",
        f"%b = stablehlo.tanh %x : {F}",
        f"""%r = "stablehlo.case"(%n) ({{
          %c = stablehlo.negate %b : {F}
          stablehlo.return %c : {F}
        }}, {{
          stablehlo.return %b : {F}
        }}) : (tensor<i32>) -> {F}""",
        f"return %r, %a : {F}, {F}",
        result=f"{F}, {F}",
    )
    graph = cse(module).graph
    assert [node.op for node in graph.nodes] == ["tanh", "case"]
    assert graph.nodes[1].operands[1:] == [graph.nodes[0].result]


def test_doubling_chains_of_constants_are_merged_quickly() -> None:
    """Check a chain of 60 constants, each the sum of two uses of its predecessor: comparing must not visit 2^60 terms."""
    halves = [f"%c{n + 1} = stablehlo.add %c{n}, %c{n} : {F}" for n in range(60)]
    second_chain = [line.replace("%c", "%d") for line in halves]
    module = program(
        f"%c0 = stablehlo.constant dense<1.0> : {F}", *halves,
        f"%d0 = stablehlo.constant dense<1.0> : {F}", *second_chain,
        f"%a = stablehlo.multiply %x, %c60 : {F}", f"%b = stablehlo.multiply %x, %d60 : {F}",
        f"return %a, %b : {F}, {F}", result=f"{F}, {F}",
    )  # fmt: skip
    (first, second) = cse(module).graph.outputs
    assert first is second
