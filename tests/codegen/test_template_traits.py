"""Tests that passes and reports use traits of kernel templates, so that a new template needs no other change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bodies import ONE, Body, check
from test_horizontal_fusion import joined

from meshgen.codegen.emit import templates
from meshgen.codegen.emit.map import MAP
from meshgen.codegen.emit.plan import KernelPlan
from meshgen.codegen.emit.reduce import REDUCE
from meshgen.codegen.fuse import fuse
from meshgen.codegen.kernel_nodes import recorded_template
from meshgen.codegen.triton_source import kernel_source
from meshgen.cost_model.kernels import Device
from meshgen.errors import ProgramError
from meshgen.ir.graph import Graph
from meshgen.mlir.text import parse_text, print_text
from tests.sources import FILES, nodes_of, place, refuse

TEMPLATE = {"template", "_template", "template_of", "_template_of"}


def compared_templates(path: Path) -> Iterator[str]:
    """Yield the source location of each comparison that tests which template a kernel has (by `==`, `!=` or `in`)."""
    for node in nodes_of(path, ast.Compare):
        by_value = any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
        inside = [child for side in (node.left, *node.comparators) for child in ast.walk(side)]
        words = {getattr(child, "id", getattr(child, "attr", "")) for child in inside}
        if by_value and words & TEMPLATE:
            yield place(path, node.lineno)


def test_template_names_are_not_compared() -> None:
    refuse([offender for path in FILES for offender in compared_templates(path)])


def add_template(monkeypatch: pytest.MonkeyPatch, *, joins: bool) -> None:
    """Insert a template before all others.

    The new template matches kernels that add a value to itself, which `map` would otherwise match.
    """

    def match(body: Graph, device: Device) -> KernelPlan | None:
        is_doubling = [(node.op, len({*node.operands})) for node in body.nodes] == [("add", 1)]
        return KernelPlan(template) if is_doubling and MAP.match(body, device) else None

    template = replace(MAP, name="doubling", match=match, joins=joins)
    monkeypatch.setattr(templates, "TEMPLATES", {template.name: template, **templates.TEMPLATES})


def doubled_and_tanh() -> Graph:
    b = Body("f32[64,80]", "f32[96]", "f32[7,5]")
    x, y, z = b.inputs
    return b.done(b.op("add", x, x), b.op("tanh", y), b.op("add", z, z))


def test_kernels_of_a_joinable_new_template_share_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    add_template(monkeypatch, joins=True)
    (body,) = joined(doubled_and_tanh()).kernels.values()
    assert check(body).template == "segmented"
    b = Body("f32[5]")
    assert kernel_source("alone", b.done(b.op("add", *b.inputs * 2)), ONE).template == "doubling"


def test_kernels_of_a_non_joinable_template_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    add_template(monkeypatch, joins=False)
    assert len(joined(doubled_and_tanh()).kernels) == 3


def fused_text() -> str:
    """Return the text of a fused program with one kernel, which sums rows."""
    text = """
    builtin.module attributes {meshgen.stage = "partition"} {
      shard.grid @g(shape = 1) {axis_names = ["x"]}
      func.func public @f(%a: tensor<64x80xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<64x80xf32>})
          -> (tensor<64xf32> {meshgen.layout = #meshgen.split<@g, [[]]>, meshgen.global = tensor<64xf32>}) {
        %0 = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [1] : (tensor<64x80xf32>, tensor<f32>) -> tensor<64xf32>
        func.return %1 : tensor<64xf32>
      }
    }"""
    return print_text(fuse(parse_text(text)))


def test_kernel_template_round_trips_through_text() -> None:
    text = fused_text()
    assert text.count('attributes {meshgen.kernel = "reduce"}') == 1 and print_text(parse_text(text)) == text
    (body,) = parse_text(text).kernels.values()
    assert body.template == "reduce"


def test_only_the_recorded_template_is_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(body: Graph, device: Device) -> KernelPlan | None:
        raise AssertionError(f"{body.name} is matched again")

    (body,) = parse_text(fused_text()).kernels.values()
    unmatchable = {name: replace(template, match=unexpected) for name, template in templates.TEMPLATES.items()}
    monkeypatch.setattr(templates, "TEMPLATES", {**unmatchable, REDUCE.name: REDUCE})
    assert kernel_source("rows", body, ONE).template == "reduce"


@pytest.mark.parametrize("record", ["", ' = "map"', ' = "no template"'])
def test_kernel_without_recorded_template_is_matched(record: str) -> None:
    text = fused_text().replace(' = "reduce"}', f"{record}}}")
    (body,) = parse_text(text).kernels.values()
    assert kernel_source("rows", body, ONE).template == "reduce"


def test_recorded_template_that_is_no_name_is_rejected() -> None:
    with pytest.raises(ProgramError, match=r"MG0104.*meshgen.kernel must be the name of a kernel template"):
        parse_text(fused_text().replace(' = "reduce"', " = 3"))


def test_body_without_a_template_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[Graph] = []

    def refused(body: Graph, device: Device) -> KernelPlan | None:
        matched.append(body)
        return None

    monkeypatch.setattr(templates, "TEMPLATES", {"refusing": replace(MAP, name="refusing", match=refused)})
    b = Body("f32[4]")
    body = b.done(b.op("tanh", *b.inputs))
    assert [recorded_template(body), recorded_template(body)] == [None, None]
    assert len(matched) == 1 and body.template == ""
