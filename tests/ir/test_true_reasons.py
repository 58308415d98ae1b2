"""Tests of import errors: one error per unsupported value, where it is defined. Ops without effect are forwarded."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text

PAIR = "tuple<tensor<4xf32>, tensor<4xf32>>"
FUTURE = "!stablehlo.future<tensor<4xf32>>"
START = f"""  %0 = "stablehlo.async_start"(%a) ({{
  ^bb0(%b: tensor<4xf32>):
    %1 = stablehlo.tanh %b : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }}) : (tensor<4xf32>) -> {FUTURE}"""
CASES: dict[str, tuple[str, str, str, str, int]] = {
    "argument": (f", %t: {PAIR}", f"  %r = stablehlo.get_tuple_element %t[0] : ({PAIR}) -> tensor<4xf32>", "%r", PAIR, 1),
    "result": ("", f"  %r = stablehlo.tuple %a, %a : {PAIR}", f"%r : {PAIR}", PAIR, 2),
    "branches": ("", f"""  %c = stablehlo.constant dense<true> : tensor<i1>
  %t = stablehlo.tuple %a, %a : {PAIR}
  %s = "stablehlo.if"(%c) ({{ stablehlo.return %t : {PAIR} }}, {{ stablehlo.return %t : {PAIR} }}) : (tensor<i1>) -> {PAIR}
  %r = stablehlo.get_tuple_element %s[0] : ({PAIR}) -> tensor<4xf32>""", "%r", PAIR, 3),
    "future that is returned": ("", START, f"%0 : {FUTURE}", FUTURE, 2),
    "future that is given": (f", %f: {FUTURE}", f'  %r = "stablehlo.async_done"(%f) : ({FUTURE}) -> tensor<4xf32>', "%r", FUTURE, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_tuple_or_future_is_refused_once_for_its_type(name: str) -> None:
    arguments, body, result, kind, line = CASES[name]
    result = result if ":" in result else f"{result} : tensor<4xf32>"
    text = f"func.func @main(%a: tensor<4xf32>{arguments}) -> {result.partition(': ')[2]} {{\n{body}\n  return {result}\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.message) == ("MG0103", f"type {kind} is not supported")
    assert fault.loc is not None and fault.loc.line == line and "in the same region" in fault.hint


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("%r = stablehlo.get_tuple_element %a[0] : (tensor<4xf32>) -> tensor<4xf32>", "is not a tuple"),
        (f"%t = stablehlo.tuple %a, %a : {PAIR}\n  %r = stablehlo.get_tuple_element %t[2] : ({PAIR}) -> tensor<4xf32>", "element 2 is out of range"),
        ('%r = "stablehlo.async_done"(%a) : (tensor<4xf32>) -> tensor<4xf32>', "no matching stablehlo.async_start"),
        ("%r = stablehlo.tanh %q : tensor<4xf32>\n  %q = stablehlo.tanh %a : tensor<4xf32>", "used before it is defined"),
    ],
)  # fmt: skip
def test_malformed_op_is_reported_once(operation: str, message: str) -> None:
    text = f"func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n  {operation}\n  %z = stablehlo.negate %r : tensor<4xf32>\n  return %z : tensor<4xf32>\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0104" and message in fault.message


@pytest.mark.parametrize("target", ["MoveToHost", "MoveToDevice", "LayoutConstraint", "annotate_device_placement"])
def test_memory_and_layout_custom_calls_forward_their_operand(target: str) -> None:
    text = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = stablehlo.custom_call @{target}(%a) {{has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]}} : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.custom_call @InspectSharding(%0) {{has_side_effect = true, backend_config = "x"}} : (tensor<4xf32>) -> ()
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}}"""
    graph = parse_text(text).graph
    assert [node.op for node in graph.nodes] == ["tanh"] and graph.nodes[0].operands == graph.inputs
