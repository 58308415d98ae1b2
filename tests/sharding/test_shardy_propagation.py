"""Propagation features of the Shardy dialect: sharding groups, barriers, named computations."""

from __future__ import annotations

import pytest

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Module
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

MESH = 'sdy.mesh @mesh = <["a"=2, "b"=3]>\n'
KIND = "tensor<8x6xf32>"
ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}'


def program(body: str, arguments: str = f"%x: {KIND} {ROWS}, %y: {KIND}", results: str = "%p, %q") -> Module:
    """Return a program whose values all have type `KIND`."""
    kinds = ", ".join([KIND] * (results.count(",") + 1))
    return parse_text(
        f"{MESH}func.func @main({arguments}) -> ({kinds}) {{\n{body}\n  return {results} : {kinds}\n}}\n", "m.mlir"
    )


def lowered_to(stage: str, module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), stage)[stage]


def checked(module: Module) -> bool:
    return check(module, pipeline=lambda module_to_check: lowered_to("partition", module_to_check)).ok


def result_shardings(module: Module) -> dict[str, str]:
    """Return the sharding of each op's first result after propagation, by op name."""
    done = lowered_to("propagate", module)
    return {n.op: str(n.sharding.results[0]) for n in done.graph.nodes if n.sharding and n.results}


GROUPED = f"""  %p = stablehlo.add %x, %x : {KIND}
  %q = stablehlo.tanh %y : {KIND}
  sdy.sharding_group %p group_id=3 : {KIND}
  sdy.sharding_group %q group_id=3 : {KIND}"""


def test_group_members_get_sharding_of_annotated_member() -> None:
    shardings = result_shardings(program(GROUPED))
    assert shardings["add"] == shardings["tanh"] == shardings["sharding_group"] == "[{a}, {}]"
    alone = result_shardings(program(GROUPED.replace("%q group_id=3", "%q group_id=4")))
    assert alone["add"] == "[{a}, {}]" and alone["tanh"] == "[{}, {}]"


def test_value_in_two_groups_merges_them() -> None:
    more = GROUPED.replace("%q group_id=3", "%q group_id=4") + f"\n  sdy.sharding_group %p group_id=4 : {KIND}"
    assert result_shardings(program(more))["tanh"] == "[{a}, {}]"


def test_group_applies_to_earlier_uses() -> None:
    body = GROUPED.replace("  sdy", f"  %r = stablehlo.negate %q : {KIND}\n  sdy", 1)
    assert result_shardings(program(body, results="%p, %q, %r"))["negate"] == "[{a}, {}]"


@pytest.mark.parametrize("passes", ["import", "propagate"])
def test_groups_and_barriers_round_trip_through_text(passes: str) -> None:
    body = GROUPED.replace("tanh %y", "tanh %b")
    body = f"  %b = sdy.propagation_barrier %y allowed_direction=FORWARD : {KIND}\n{body}"
    module = lowered_to(passes, program(body))
    text = print_text(module)
    assert "sdy.sharding_group %q group_id=3" in text and "allowed_direction=FORWARD" in text
    assert print_text(parse_text(text)) == text
    assert checked(parse_text(text))


def test_argument_group_members_round_trip_in_order() -> None:
    members = "".join(f"  sdy.sharding_group %{name} group_id=3 : {KIND}\n" for name in "xy")
    module = lowered_to("propagate", program(f"{members}  %p = stablehlo.add %x, %y : {KIND}", results="%p"))
    text = print_text(module)
    assert text.index("sharding_group %x") < text.index("sharding_group %y")
    read = parse_text(text)
    assert print_text(read) == text
    assert checked(read)


def test_contradicting_group_annotations_are_rejected() -> None:
    with pytest.raises(MeshgenError) as caught:
        arguments = f"%x: {KIND} {ROWS}, %y: {KIND} " + ROWS.replace('"a"', '"b"')
        groups = f"  sdy.sharding_group %x group_id=0 : {KIND}\n  sdy.sharding_group %y group_id=0 : {KIND}"
        result_shardings(program(groups, arguments, "%x, %y"))
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0206" and "group 0" in fault.message


def test_open_dim_of_group_member_follows_required_sharding() -> None:
    arguments = f"%x: {KIND} {ROWS}, %y: {KIND} " + ROWS.replace('"a"', "?")
    assert result_shardings(program(GROUPED, arguments))["tanh"] == "[{a}, {}]"


def test_group_members_of_different_shape_are_rejected() -> None:
    small = KIND.replace("8", "4")
    body = GROUPED.replace(f"tanh %y : {KIND}", f"tanh %y : {small}").replace(
        f"%q group_id=3 : {KIND}", f"%q group_id=3 : {small}"
    )
    text = f"{MESH}func.func @main(%x: {KIND}, %y: {small}) -> ({KIND}, {small}) {{\n{body}\n  return %p, %q : {KIND}, {small}\n}}\n"
    with pytest.raises(MeshgenError) as caught:
        lowered_to("propagate", parse_text(text))
    assert [fault.code for fault in caught.value.diagnostics] == ["MG0204"]


BARRIER = f"""  %b = sdy.propagation_barrier %x allowed_direction=DIRECTION : {KIND}
  %p = stablehlo.add %b, %b : {KIND}"""
BEHIND = f"""  %s = stablehlo.tanh %x : {KIND}
  %b = sdy.propagation_barrier %s allowed_direction=DIRECTION : {KIND}
  %p = sdy.sharding_constraint %b <@mesh, [{{"a"}}, {{}}]> : {KIND}"""


@pytest.mark.parametrize("direction, propagates", [("FORWARD", True), ("BACKWARD", False), ("NONE", False)])
def test_barrier_propagates_operand_sharding_only_forward(direction: str, propagates: bool) -> None:
    module = program(BARRIER.replace("DIRECTION", direction), f"%x: {KIND} {ROWS}", "%p")
    assert result_shardings(module)["add"] == ("[{a}, {}]" if propagates else "[{}, {}]")
    assert checked(module)


@pytest.mark.parametrize("direction, propagates", [("FORWARD", False), ("BACKWARD", True), ("NONE", False)])
def test_barrier_propagates_user_sharding_only_backward(direction: str, propagates: bool) -> None:
    module = program(BEHIND.replace("DIRECTION", direction), f"%x: {KIND}", "%p")
    assert result_shardings(module)["tanh"] == ("[{a}, {}]" if propagates else "[{}, {}]")
    assert checked(module)


def test_unknown_barrier_direction_is_rejected() -> None:
    with pytest.raises(MeshgenError, match="expected one of the directions"):
        program(BARRIER.replace("DIRECTION", "BOTH"), f"%x: {KIND}", "%p")


NAMED = f"""  %p = sdy.named_computation<"f">(%x) SHARDINGS(%z: {KIND}) {{
    %w = stablehlo.tanh %z : {KIND}
    sdy.return %w : {KIND}
  }} : ({KIND}) -> {KIND}"""


def test_named_computation_is_inlined() -> None:
    module = program(NAMED.replace("SHARDINGS", ""), f"%x: {KIND} {ROWS}", "%p")
    assert result_shardings(module) == {"tanh": "[{a}, {}]"}


def test_named_computation_shardings_become_annotations() -> None:
    shardings = 'in_shardings=[<@mesh, [{"b"}, {}]>] out_shardings=[<@mesh, [{}, {"a"}]>] '
    module = program(NAMED.replace("SHARDINGS", shardings), f"%x: {KIND} {ROWS}", "%p")
    done = lowered_to("propagate", module)
    annotated = [str(n.sharding.results[0]) for n in done.graph.nodes if n.op == "annotate" and n.sharding]
    assert annotated == ["[{b}, {}]", "[{}, {a}]"]
    assert checked(module)


def test_named_computation_with_wrong_types_is_rejected() -> None:
    with pytest.raises(MeshgenError, match="but those of the body"):
        program(NAMED.replace("SHARDINGS", "").replace(KIND, "tensor<4xf32>", 3), f"%x: {KIND}", "%p")
    with pytest.raises(MeshgenError, match="2 shardings for 1 values"):
        shardings = "in_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] "
        program(NAMED.replace("SHARDINGS", shardings), f"%x: {KIND}", "%p")


def test_sdy_constants_and_data_flow_edges_are_parsed() -> None:
    body = f"""  %c = sdy.constant dense<2.0> : {KIND}
  %e = sdy.data_flow_edge %x sharding=<@mesh, [{{}}, {{"b"}}]> : {KIND}
  %f = sdy.data_flow_edge %c : {KIND}
  %p = stablehlo.add %e, %f : {KIND}"""
    module = program(body, f"%x: {KIND}", "%p")
    assert result_shardings(module)["add"] == "[{}, {b}]" and checked(module)


INSIDE = f"""  %r = "stablehlo.if"(%p) ({{
    %t = stablehlo.tanh %y : {KIND}
    sdy.sharding_group %t group_id=7 : {KIND}
    stablehlo.return %t : {KIND}
  }}, {{
    sdy.sharding_group %x group_id=7 : {KIND}
    %s = stablehlo.negate %x : {KIND}
    stablehlo.return %s : {KIND}
  }}) : (tensor<i1>) -> {KIND}"""


def test_group_can_span_branches_and_captured_values() -> None:
    module = program(INSIDE, f"%x: {KIND} {ROWS}, %y: {KIND}, %p: tensor<i1>", "%r")
    propagated = lowered_to("propagate", module)
    shardings = {n.op: str(n.sharding.results[0]) for n in all_nodes(propagated.graph) if n.sharding and n.results}
    assert shardings["tanh"] == shardings["negate"] == shardings["sharding_group"] == "[{a}, {}]"
    assert checked(module) and print_text(parse_text(print_text(propagated))) == print_text(propagated)


def test_group_across_manual_computation_is_rejected() -> None:
    text = f"""  sdy.sharding_group %x group_id=1 : {KIND}
  %p = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"a"}}, {{?}}]>] out_shardings=[<@mesh, [{{"a"}}, {{?}}]>] manual_axes={{"a"}} (%t: tensor<4x6xf32>) {{
    sdy.sharding_group %t group_id=GROUP : tensor<4x6xf32>
    sdy.return %t : tensor<4x6xf32>
  }} : ({KIND}) -> {KIND}"""
    assert checked(program(text.replace("GROUP", "2"), f"%x: {KIND} {ROWS}", "%p"))
    with pytest.raises(MeshgenError) as caught:
        lowered_to("propagate", program(text.replace("GROUP", "1"), f"%x: {KIND} {ROWS}", "%p"))
    assert [fault.code for fault in caught.value.diagnostics] == ["MG0204"]


def test_group_across_meshes_is_rejected() -> None:
    text = f"""sdy.mesh @a = <["x"=2], device_ids=[0, 1]>
sdy.mesh @b = <["x"=2], device_ids=[2, 3]>
func.func @main(%x: {KIND}) -> {KIND} {{
  %p = sdy.sharding_constraint %x <@a, [{{"x"}}, {{}}]> : {KIND}
  sdy.sharding_group %p group_id=0 : {KIND}
  %q = sdy.sharding_constraint %p <@b, [{{"x"}}, {{}}]> : {KIND}
  %r = stablehlo.tanh %q : {KIND}
  sdy.sharding_group %r group_id=0 : {KIND}
  return %r : {KIND}
}}"""
    with pytest.raises(MeshgenError) as caught:
        lowered_to("propagate", parse_text(text))
    assert [fault.code for fault in caught.value.diagnostics] == ["MG0209"]
    assert checked(parse_text(text.replace("%r group_id=0", "%r group_id=1")))
