"""Tests of Shardy's verifiers: contradictory shardings, collectives that do not produce out_sharding, and wrong rules."""

from __future__ import annotations

import pytest

import meshgen as mg
from meshgen.commands.output import Output
from meshgen.errors import ProgramError
from meshgen.ir.graph import TensorType
from meshgen.mlir.sdy.rule_checks import rule_fault
from meshgen.mlir.text import parse_text

T = "tensor<8x8xf32>"


def program(*lines: str, argument: str = "") -> str:
    attribute = f" {{sdy.sharding = #sdy.sharding<@m, [{argument}]>}}" if argument else ""
    body = "\n".join(f"  {line} : {T}" if "manual" not in line else f"  {line}" for line in lines)
    return f'sdy.mesh @m = <["x"=2, "y"=4]>\nfunc.func @main(%a: {T}{attribute}) -> {T} {{\n{body}\n  return %0 : {T}\n}}\n'


def constraint(sharding: str) -> str:
    return program(f"%0 = sdy.sharding_constraint %a <@m, {sharding}>")


SHARDINGS = {
    '[{"x"}, {}], replicated={"z"}': ("MG0202", "mesh axis 'z' is not in"),
    '[{"x"}, {}], replicated={"x"}': ("MG0203", "'x' is used more than once"),
    '[{?}, {}], replicated={"y"}, unreduced={"y"}': ("MG0203", "'y' is used more than once"),
    '[{?}, {}], replicated={"y", "y"}': ("MG0203", "'y' is used more than once"),
    '[{"y":(1)2}, {}], replicated={"y"}': ("MG0203", "'y' is used more than once"),
    '[{"x":(1)2}, {}]': ("MG0201", "not a sub-axis of 'x' of size 2"),
    '[{"y":(1)1}, {}]': ("MG0201", "not a sub-axis of 'y' of size 4"),
    '[{"y":(2)0}, {}]': ("MG0201", "not a sub-axis of 'y' of size 4"),
    '[{"y":(0)2}, {}]': ("MG0201", "not a sub-axis of 'y' of size 4"),
    '[{}p1, {"x"}]': ("MG0204", "a dim that is closed and has no axes has no priority, got 'p1'"),
    '[{"x"}p10000000000000000000, {}]': ("MG0204", "unexpected|',' expected"),
}


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_contradictory_sharding_is_refused(sharding: str) -> None:
    code, message = SHARDINGS[sharding]
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(constraint(sharding), "m.mlir")
    assert {(fault.code, str(fault.loc)) for fault in caught.value.diagnostics} == {(code, "m.mlir:3")}


@pytest.mark.parametrize("sharding", ['[{"x"}p0, {?}p1], replicated={"y"}', '[{"y":(1)2}, {"y":(2)2}], replicated={"x"}', '[{}, {}], replicated={"x"}, unreduced={"y"}'])  # fmt: skip
def test_valid_sharding_is_imported(sharding: str) -> None:
    assert parse_text(constraint(sharding)).graph.nodes[0].op == "annotate"


# Value: the operand's sharding, the collective, and the expected message.
COLLECTIVES: dict[str, tuple[str, str, str]] = {
    "gathers what does not split": ('{"x"}, {}', 'all_gather [{"y"}, {}] %a out_sharding=<@m, [{}, {}]>', "dim 0 of the operand"),
    "gathers the major axis": ('{"x", "y"}, {}', 'all_gather [{"x"}, {}] %a out_sharding=<@m, [{"y"}, {}]>', "dim 0 of the operand"),
    "gathers less than it says": ('{"x", "y"}, {}', 'all_gather [{"y"}, {}] %a out_sharding=<@m, [{}, {}]>', "dim 0 of the operand"),
    "gathers dims of another rank": ('{"x"}, {}', 'all_gather [{"x"}] %a out_sharding=<@m, [{}, {}]>', "lists the axes of 1 dims"),
    "gathers an unknown axis": ('{"x"}, {}', 'all_gather [{"z"}, {}] %a out_sharding=<@m, [{}, {}]>', "'z' is not in"),
    "gathers an axis twice": ('{"x"}, {}', 'all_gather [{"x"}, {"x"}] %a out_sharding=<@m, [{}, {}]>', "listed more than once"),
    "slices along another axis": ('{"x"}, {}', 'all_slice [{}, {"y"}] %a out_sharding=<@m, [{"x", "y"}, {}]>', "of the operand"),
    "slices what is not said to be split": ("", 'all_slice [{}, {"y"}] %a out_sharding=<@m, [{"x"}, {"y"}]>', "dim 0 of the operand"),
    "exchanges another axis": ('{"x"}, {}', 'all_to_all [{"y"}: 0->1] %a out_sharding=<@m, [{}, {"x"}]>', "of the operand"),
    "exchanges with a dim that is not there": ('{"x"}, {}', 'all_to_all [{"x"}: 0->2] %a out_sharding=<@m, [{}, {"x"}]>', "names dim 2"),
    "exchanges a dim with itself": ('{"x"}, {}', 'all_to_all [{"x"}: 0->0] %a out_sharding=<@m, [{"x"}, {}]>', "names a dim twice"),
    "exchanges nothing": ('{"x"}, {}', 'all_to_all [{}: 0->1] %a out_sharding=<@m, [{"x"}, {}]>', "has no axes"),
    "permutes to other sizes": ('{"x"}, {}', 'collective_permute %a out_sharding=<@m, [{"y"}, {}]>', "dim 0 has 2 shards, but out_sharding has 4"),
    "reduces over what splits": ('{"x"}, {}', 'all_reduce {"x"} %a out_sharding=<@m, [{"x"}, {}]>', "reduces over 'x'"),
    "reduces and moves": ('{"x"}, {}', 'all_reduce {"y"} %a out_sharding=<@m, [{}, {"x"}]>', "dim 0 of the operand"),
    "scatters to another dim": ('{}, {}', 'reduce_scatter [{"x"}, {}] %a out_sharding=<@m, [{}, {"x"}]>', "of the operand"),
    "a part that is all": ('{"x"}, {}', 'all_gather [{"x":(1)2}, {}] %a out_sharding=<@m, [{}, {}]>', "not a sub-axis of 'x'"),
    "an operand of which nothing is said": ("", 'all_gather [{"y"}, {}] %a out_sharding=<@m, [{}, {}]>', "its operand has no sharding"),
    "a permutation of what is whole": ("", "collective_permute %a out_sharding=<@m, [{}, {}]>", "its operand has no sharding"),
    "a reduction of what is whole": ("", 'all_reduce {"y"} %a out_sharding=<@m, [{"x"}, {}]>', "out_sharding cannot be"),
    "a list of something else": ('{"x"}, {}', 'all_gather [{?}, {}] %a out_sharding=<@m, [{}, {}]>', "cannot parse the axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collective_that_does_not_yield_out_sharding_is_refused(name: str) -> None:
    argument, collective, message = COLLECTIVES[name]
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(program(f"%0 = sdy.{collective}", argument=argument), "m.mlir")
    assert {(fault.code, str(fault.loc)) for fault in caught.value.diagnostics} == {("MG0204", "m.mlir:3")}


@pytest.mark.parametrize(
    ("kind", "collective"),
    [
        ("max", 'all_reduce {"x"} %a out_sharding=<@m, [{}, {}]>'),
        ("min", 'all_reduce max {"x"} %a out_sharding=<@m, [{}, {}]>'),
        ("max", 'reduce_scatter [{"x"}, {}] %a out_sharding=<@m, [{"x"}, {}]>'),
    ],
)
def test_reduction_kind_must_match_the_operand(kind: str, collective: str) -> None:
    text = program(f"%0 = sdy.{collective}", argument="{}, {}")
    annotated = text.replace("[{}, {}]>}", f'[{{}}, {{}}], unreduced={kind}{{"x"}}>}}', 1)
    with pytest.raises(ProgramError, match=rf"MG0204: .*unreduced there by {kind}"):
        parse_text(annotated)
    parse_text(annotated.replace("all_reduce max", "all_reduce").replace(f"={kind}{{", "={"))


def test_sharding_group_must_not_cross_a_manual_computation() -> None:
    member = "sdy.sharding_group %{} group_id={} : tensor<{}xf32>"
    text = MANUAL.format(ins='"y"', outs='"y"', axes='"y"', rows=1)
    inside = text.replace("    %1 = sdy", f"    {member.format('b', 0, 4)}\n    %1 = sdy")
    outside = f"  {member.format('a', 0, 8)}\n  %0 = sdy"
    with pytest.raises(ProgramError, match=r"MG0204: sharding group 0 has members inside and outside"):
        parse_text(inside.replace("  %0 = sdy", outside))
    parse_text(inside.replace("  %0 = sdy", outside.replace("group_id=0", "group_id=1")))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("mesh = @m, axes = [0 : i64]", r"expected a list of #stablehlo\.axis_ref"),
        ("mesh = @m, axes = 3", r"expected a list of #stablehlo\.axis_ref"),
        ("mesh = @m, axes = [#stablehlo.axis_ref<sub_axis_info = (1)2>]", "expected the field 'name'"),
        ("mesh = @m", "expected the field 'axes'"),
        ("axes = []", "expected the field 'mesh'"),
        ("mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<size = 2>]>, axes = []", "expected the field 'name'"),
        ("mesh = #stablehlo.mesh<axes = [@m]>, axes = []", r"expected a list of #stablehlo\.mesh_axis"),
    ],
)
def test_malformed_mesh_axes_groups_are_refused_at_their_location(attribute: str, message: str) -> None:
    groups = f"replica_groups = #stablehlo.replica_group_mesh_axes<{attribute}>"
    text = program(f'%0 = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64, {groups}}}').replace(
        f": {T}\n  return", f": ({T}) -> {T}\n  return"
    )
    with pytest.raises(ProgramError, match=rf"m\.mlir:3.*MG0101: {message}"):
        parse_text(text, "m.mlir")


@pytest.mark.parametrize(
    ("argument", "collective"),
    [
        ('{"x", "y"}, {}', 'all_gather [{"y"}, {}] %a out_sharding=<@m, [{"x"}, {}]>'),
        ('{"x", "y"}, {}', 'all_gather [{"y":(2)2}, {}] %a out_sharding=<@m, [{"x", "y":(1)2}, {}]>'),
        ('{"y":(1)2}, {}', 'all_slice [{"y":(2)2}, {"x"}] %a out_sharding=<@m, [{"y"}, {"x"}]>'),
        ('{"x", "y"}, {}', 'all_to_all [{"y"}: 0->1] %a out_sharding=<@m, [{"x"}, {"y"}]>'),
        ('{"x"}, {"y"}', 'collective_permute %a out_sharding=<@m, [{"y":(1)2}, {"x", "y":(2)2}]>'),
        ("", 'all_slice [{}, {"y"}] %a out_sharding=<@m, [{}, {"y"}]>'),
        ("", 'all_reduce {"y"} %a out_sharding=<@m, [{}, {}]>'),
        ("", 'reduce_scatter [{"y"}, {}] %a out_sharding=<@m, [{"y"}, {}]>'),
    ],
)
def test_valid_collective_is_imported(argument: str, collective: str) -> None:
    assert parse_text(program(f"%0 = sdy.{collective}", argument=argument)).graph.nodes[0].op == "annotate"


def test_operand_sharding_comes_from_its_producer() -> None:
    tanh = '%1 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}'
    with pytest.raises(ProgramError, match=r"dim 0 of the operand is split along .'x'."):
        parse_text(program(tanh, '%0 = sdy.all_gather [{"y"}, {}] %1 out_sharding=<@m, [{}, {}]>'))


MANUAL = """sdy.mesh @m = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
  %0 = sdy.manual_computation(%a) in_shardings=[<@m, [{{"x"}}]>] out_shardings=[<@m, [{{"x"}}]>] manual_axes={{"x"}} (%b: tensor<4xf32>) {{
    %1 = sdy.manual_computation(%b) in_shardings=[<@m, [{{{ins}}}]>] out_shardings=[<@m, [{{{outs}}}]>] manual_axes={{{axes}}} (%c: tensor<{rows}xf32>) {{
      %2 = stablehlo.tanh %c : tensor<{rows}xf32>
      sdy.return %2 : tensor<{rows}xf32>
    }} : (tensor<4xf32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  }} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}}
"""


def test_axis_may_be_manual_only_once() -> None:
    text = MANUAL.format(ins='"x"', outs='"x"', axes='"x"', rows=2)
    with pytest.raises(ProgramError, match=r"MG0203: .* names \['x'\], but \['x'\] are manual already") as caught:
        parse_text(text, "m.mlir")
    assert str(caught.value.diagnostics[0].loc) == "m.mlir:4"
    parse_text(MANUAL.format(ins='"y"', outs='"y"', axes='"y"', rows=1))


def test_inner_sharding_must_not_name_outer_manual_axis() -> None:
    with pytest.raises(ProgramError, match=r"MG0203: .* names \['x'\], but \['x'\] are manual already"):
        parse_text(MANUAL.format(ins='"y", "x"', outs='"y"', axes='"y"', rows=1))


# Value: a sharding rule for a dot of 4x8 and 8x6, and the expected message ("" if the rule is valid).
RULES = {
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}": "",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}, custom": "",
    "([i, kl], [kl, j])->([i, j]) {i=4, j=6, k=2, l=4} reduction={k, l}": "",
    "([i, k])->([i, j]) {i=4, j=6, k=8}": "has 1 operands, but the operation 2",
    "([i, k], [k, j])->() {i=4, j=6, k=8}": "has 0 results, but the operation 1",
    "([i, k], [k])->([i, j]) {i=4, j=6, k=8}": r"operand 1 has 1 dims, but the tensor is f32[8,6]",
    "([i, k], [k, j])->([i, l]) {i=4, j=6, k=8}": "names factor l without giving its size",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8, l=2}": "factor l a size, but no dim has it",
    "([i, i], [k, j])->([i, j]) {i=4, j=6, k=8}": "operand 0 has factor i twice",
    "([i, ], [k, j])->([i, j]) {i=4, j=6, k=8}": "got ']'",
    "([i, k j], [k, j])->([i, j]) {i=4, j=6, k=8}": "',' expected",
    "([i, k+], [k, j])->([i, j]) {i=4, j=6, k=8}": "unexpected '+'",
    "([i, a], [a, j])->([i, j]) {i=4, j=6, a=8}": "expected factors, which are i to z, z_1, z_2, ..., got 'a'",
    "([i, z_0], [z_0, j])->([i, j]) {i=4, j=6, z_0=8}": "got 'z_0'",
    "([i, k_1], [k_1, j])->([i, j]) {i=4, j=6, k_1=8}": "got 'k_1'",
    "([i, k], [k, j])->([i, j]) {k=8, i=4, j=6}": "gives factor k a size where i is next",
    "([i, l], [l, j])->([i, j]) {i=4, j=6, l=8}": "gives factor l a size where k is next",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8, k=8}": "gives factor k a size where l is next",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, ij=8}": "expected one factor, got 'ij'",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=-8}": "unexpected '-'",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} sum={k}": "unexpected 'sum'",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction: {k}": "'=' expected",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} permutation={i} need_replication={j}": "unexpected 'need_replication'",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} need_replication={j, i}": "need_replication must name each factor once, in the order of their sizes, got j, i",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} blocked_propagation={i, i}": "blocked_propagation must name each factor once",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={i}": "reduction has factor i, which is a dim of a result",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8},": "'custom' expected",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8}, custom, custom": "unexpected ','",
    "([i, kl], [k, j])->([i, j]) {i=4, j=6, k=8, l=1}": "operand 0 has factor l of size 1 beside others",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=0}": "",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={m}": "reduction has factor m",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k} permutation={k}": "factor k is in reduction and in permutation",
    "nothing": "must have the form",
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_sharding_rule_must_fit_its_op(rule: str) -> None:
    operands = [TensorType((4, 8), "f32"), TensorType((8, 6), "f32")]
    fault = rule_fault(rule, operands, [TensorType((4, 6), "f32")])
    assert RULES[rule] in fault and bool(fault) == bool(RULES[rule])


def test_factor_names_after_z_are_numbered() -> None:
    names = [*"ijklmnopqrstuvwxyz", "z_1", "z_2"]
    dims, sizes = ", ".join(names), ", ".join(f"{name}=2" for name in names)
    kind = TensorType((2,) * 20, "f32")
    assert not rule_fault(f"([{dims}])->([{dims}]) {{{sizes}}}", [kind], [kind])
    flat = [TensorType((1 << 20,), "f32")]
    assert not rule_fault(f"([{''.join(names)}])->([{''.join(names)}]) {{{sizes}}}", flat, flat)


def test_custom_rule_is_accepted_on_custom_call_only() -> None:
    rule = "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}, custom>"
    called = program(f"%0 = stablehlo.custom_call @mhlo.erf(%a) {{{rule}}}")
    parse_text(called.replace(f"custom>}} : {T}", f"custom>}} : ({T}) -> {T}"))
    with pytest.raises(ProgramError, match=r"MG0204: stablehlo\.tanh: its sharding rule is custom"):
        parse_text(program(f"%0 = stablehlo.tanh %a {{{rule}}}"))


def test_wrong_rule_is_refused_at_its_location() -> None:
    rule = "sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=8, j=8}>"
    with pytest.raises(ProgramError, match="its sharding rule operand 0 has 1 dims") as caught:
        parse_text(program(f"%0 = stablehlo.tanh %a {{{rule}}}"), "m.mlir")
    assert str(caught.value.diagnostics[0].loc) == "m.mlir:3"


REDUCE = '%0 = sdy.all_reduce {"x"} %1 out_sharding=<@m, [{}, {}]>'
WHOLE = {
    "an argument": ("", REDUCE.replace("%1", "%a")),
    "a map of an argument": ("%1 = stablehlo.tanh %a", REDUCE),
    "a scattered constant": ("%1 = stablehlo.constant dense<1.0>", REDUCE.replace('all_reduce {"x"}', 'reduce_scatter [{"x"}, {}]').replace("[{}, {}]>", '[{"x"}, {}]>')),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_reduction_of_replicated_value_gives_a_warning(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = program(*filter(None, WHOLE[name]))
    (warning,) = mg.compile(text, target="cpu").warnings
    assert warning.code == "MG0109" and warning.loc is not None and "over x" in warning.message
    Output(False).warnings([warning])
    assert "warning MG0109" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "%1 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]",
        '%1 = sdy.sharding_constraint %a <@m, [{}, {}], unreduced={"x"}>',
    ],
)
def test_reduction_of_possibly_partial_value_gives_no_warning(line: str) -> None:
    text = program(line, REDUCE).replace("x [0] : tensor<8x8xf32>", f"x [0] : ({T}, {T}) -> {T}")
    assert list(mg.compile(text, target="cpu").warnings) == []
