"""Tests of variants of Shardy's text: white space, attributes inline and by alias, reduction kinds, one device."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.graph import Module
from meshgen.mlir.families import dialects
from meshgen.mlir.parser import TextParser
from meshgen.mlir.sdy.spelling import Spelled, SpelledMesh, read_mesh, read_spelled, spell
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.spec import P, Sharding
from meshgen.testing.oracle import check

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'


def shardings_of(module: Module) -> list[str]:
    return [str(node.attrs.sharding) for node in module.graph.nodes if node.op == "annotate"]


def counts(text: str) -> dict[str, int]:
    """Return the number of collectives of each kind. Also checks the results on all ranks."""
    module = parse_text(text)
    result = check(
        module, pipeline=lambda imported: run_stages(imported, Options("cpu"), Timing(), "partition")["partition"]
    )
    assert result.ok, result.faults
    return mg.compile(text, target="cpu").comms.counts


def on_main(body: str, kind: str = "tensor<8x8xf32>", head: str = MESH) -> str:
    """Return a function of one argument `%a` whose `body` defines the result `%r`."""
    return f"{head}func.func @main(%a: {kind}) -> {kind} {{\n{body}\n  return %r : {kind}\n}}\n"


# Spelling --------------------------------------------------------------------------------------------------------

LOOSE = """ @mesh , [ { "x" : ( 1 ) 2 , "y"
    } , { "z" , ? // an open dim
    } p3 ] , unreduced = max { "w" } , replicated = { "v" : (2) 4 } """
TIGHT = '@mesh,[{"x":(1)2,"y"},{"z",?}p3],unreduced=max{"w"},replicated={"v":(2)4}'


@pytest.mark.parametrize("text", [LOOSE, TIGHT], ids=["loose", "tight"])
def test_white_space_in_a_sharding_is_ignored(text: str) -> None:
    spelled = read_spelled(text)
    assert spelled == Spelled("mesh", (("x:(1)2", "y"), ("z",)), (False, True), ("v:(2)4",), ("w",), ("max",))
    assert str(spelled) == '@mesh, [{"x":(1)2, "y"}, {"z", ?}], replicated={"v":(2)4}, unreduced=max{"w"}'
    assert read_spelled(str(spelled)) == spelled


def test_mesh_is_read_with_axes_and_device_order() -> None:
    assert read_mesh(' [ "x" = 2 ,"y"=1 ] , device_ids = [ 1 , 0 ] ') == SpelledMesh((("x", 2), ("y", 1)), (1, 0))
    mesh = read_spelled('mesh<["x"=2], device_ids=[1, 0]>, []').mesh
    assert mesh == SpelledMesh((("x", 2),), (1, 0)) and str(mesh) == '["x"=2], device_ids=[1, 0]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('@mesh, [{"x"}', "'\\]' expected|',' expected"),
        ('@mesh, [{"x",}]', "expected a name in quotes"),
        ('@mesh, [{"x":(1)}]', "expected a number"),
        ('@mesh, [{?, "x"}]', "'}' expected"),
        ('@mesh, [{"x"}p01]', "',' expected"),
        ('@mesh, [{}], unreduced={"x"}, unreduced={"y"}', "'unreduced' is given twice"),
        ('@mesh, [{}], unreduced=mean{"x"}', "'{' expected"),
        ('@mesh, [{}], reduced={"x"}', "unknown field 'reduced'"),
        ("mesh, [{}]", "'<' expected"),
        ('"mesh", [{}]', "the name of a mesh"),
        ("@mesh, [{}]; []", "unexpected ';'"),
    ],
)
def test_malformed_sharding_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_spelled(text)


def test_reduction_kinds_round_trip_through_text() -> None:
    sharding = Sharding((("x",), ()), (("y", "max"), ("z", "sum"), ("w:(1)2", "max")))
    text = spell(sharding, "a b", (False, True))
    assert text == '@"a b", [{"x"}, {?}], unreduced=max{"y", "w":(1)2}, unreduced={"z"}'
    spelled = read_spelled(text)
    assert spelled.mesh == "a b" and set(zip(spelled.unreduced, spelled.kinds, strict=True)) == set(sharding.partial)


# Attributes ------------------------------------------------------------------------------------------------------

ALIASES = """#mesh = #sdy.mesh<["x"=2, "y"=4]>
#rows = #sdy.sharding<@mesh, [{"x"}, {}]>
#both = #sdy.sharding_per_value<[#rows]>
#axes = #sdy<manual_axes{"x"}>
sdy.mesh @mesh = MESH
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = ROWS}) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = BOTH} : tensor<8x8xf32>
  %1 = sdy.all_gather LISTS %0 out_sharding=WHOLE : tensor<8x8xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[INROWS] out_shardings=OUT manual_axes=AXES (%b: tensor<4x8xf32>) {
    %3 = stablehlo.negate %b : tensor<4x8xf32>
    sdy.return %3 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}"""
PLAIN = {
    "MESH": '<["x"=2, "y"=4]>', "INROWS": '<@mesh, [{"x"}, {}]>', "ROWS": '#sdy.sharding<@mesh, [{"x"}, {}]>',
    "BOTH": '#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>', "LISTS": '[{"x"}, {}]', "WHOLE": "<@mesh, [{}, {}]>",
    "OUT": '[<@mesh, [{"x"}, {}]>]', "AXES": '{"x"}',
}  # fmt: skip
FULL = {
    "MESH": '#sdy.mesh<["x"=2, "y"=4]>', "INROWS": '#sdy.sharding<@mesh, [{"x"}, {}]>',
    "BOTH": '#sdy.sharding_per_value<[#sdy.sharding<@mesh, [{"x"}, {}]>]>',
    "LISTS": '#sdy<list_of_axis_ref_lists[{"x"}, {}]>', "WHOLE": "#sdy.sharding<@mesh, [{}, {}]>",
    "OUT": '#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>', "AXES": '#sdy<manual_axes{"x"}>',
}  # fmt: skip
BY_ALIAS = {"MESH": "#mesh", "INROWS": "#rows", "ROWS": "#rows", "BOTH": "#both", "OUT": "#both", "AXES": "#axes"}


def _written(words: dict[str, str]) -> str:
    text = ALIASES
    for word, value in (PLAIN | words).items():
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize("words", [FULL, BY_ALIAS], ids=["in full", "by alias"])
def test_attributes_are_read_in_full_and_by_alias(words: dict[str, str]) -> None:
    assert print_text(parse_text(_written(words))) == print_text(parse_text(_written({})))


def test_alias_of_wrong_attribute_is_refused_at_its_location() -> None:
    with pytest.raises(ProgramError, match=r"#sdy\.mesh expected") as caught:
        parse_text(_written({"MESH": "#rows"}))
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0101" and fault.loc is not None and (fault.loc.line, fault.loc.column) == (5, 18)


def test_unclosed_bracket_is_reported_at_its_column() -> None:
    text = on_main("  %r = sdy.sharding_constraint %a <@mesh, [{}, {}] : tensor<8x8xf32>")
    with pytest.raises(ProgramError, match="this '<' is not closed") as caught:
        parse_text(text)
    loc = caught.value.diagnostics[0].loc
    assert loc is not None and loc.line == 3 and text.splitlines()[2][loc.column - 1] == "<"


@pytest.mark.parametrize(
    "rule",
    [
        "([i, j])->([i, j]) {i=8, j=8} blocked_propagation={i}",
        "([i, j])->([i, j]) {i=8, j=8} need_replication={j} permutation={i} blocked_propagation={i, j}",
        "([i, j])->([i, j]) {i=8, j=8} permutation={i}",
        "( [i, j] ) -> ( [i, j] ) { i = 8, j = 8 }",
    ],
)
def test_sharding_rule_of_known_op_is_ignored(rule: str) -> None:
    text = on_main(f"  %r = stablehlo.tanh %a {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}} : tensor<8x8xf32>")
    assert [node.op for node in parse_text(text).graph.nodes] == ["tanh"]


def test_sharding_rule_may_have_no_factors() -> None:
    scalars = "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %r = stablehlo.add %a, %a {sdy.sharding_rule = RULE} : tensor<f32>\n  return %r : tensor<f32>\n}"
    text = scalars.replace("RULE", "#sdy.op_sharding_rule<([], [])->([])>")
    assert [node.op for node in parse_text(text).graph.nodes] == ["add"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "([i, j])->([i, j]) {i=8, j=8} need_replication={i} permutation={i}",
            "factor i is in need_replication and in permutation",
        ),
        ("([i])->([i, j]) {i=8, j=8}", "operand 0 has 1 dims"),
        ("([i, j])->([i, j]) {i=8}", "factor j"),
        ("([i, j])->([i, j]) {i=8, j=8, k=2}", "factor k"),
        ("([], [])->([])", "has 2 operands"),
    ],
)
def test_sharding_rule_that_does_not_fit_its_op_is_refused(rule: str, message: str) -> None:
    text = on_main(f"  %r = stablehlo.tanh %a {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}} : tensor<8x8xf32>")
    with pytest.raises(ProgramError, match="MG0204") as caught:
        parse_text(text)
    assert message in str(caught.value)


# Reductions by kind ----------------------------------------------------------------------------------------------

LARGEST = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}], unreduced=max{"x"}>]>} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = COLLECTIVE : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""


@pytest.mark.parametrize(
    ("collective", "kind"),
    [
        ('sdy.all_reduce max {"x"} %0 out_sharding=<@mesh, [{"y"}]>', "all_reduce"),
        ('sdy.reduce_scatter max [{"x"}] %0 out_sharding=<@mesh, [{"y", "x"}]>', "reduce_scatter"),
    ],
)
def test_collective_may_name_its_reduction_kind(collective: str, kind: str) -> None:
    text = LARGEST.replace("COLLECTIVE", collective)
    assert shardings_of(parse_text(text))[0] == "[{y}] partial max(x)"
    assert counts(text) == {kind: 1}
    generic = str(TextParser(dialects().context, text, "-").parse_module())
    assert shardings_of(parse_text(generic)) == shardings_of(parse_text(text))
    for form in (text, generic):
        operations = TextParser(dialects().context, form, "-").parse_module().walk()
        (parsed,) = [operation for operation in operations if operation.name == f"sdy.{kind}"]
        assert parsed.properties["reduction"] == StringAttr("max")


def test_manual_computation_result_may_be_unreduced_by_min() -> None:
    text = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}], unreduced=min{"y"}>] manual_axes={"x", "y"} (%b: tensor<4x4xf32>) {
    %z = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %1 = stablehlo.reduce(%b init: %z) applies stablehlo.minimum across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8x8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    a = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    module = parse_text(text)
    assert print_text(parse_text(print_text(module))) == print_text(module)
    np.testing.assert_array_equal(mg.compile(text, target="cpu", arguments="global")(a), a.min(1))


UNREDUCED = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.OP %a out_sharding=<@mesh, SHARDING> : tensor<8x8xf32>
  %1 = sdy.REDUCE %0 out_sharding=<@mesh, WHOLE> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}"""


@pytest.mark.parametrize(
    ("op", "sharding", "reduce", "reduced_sharding", "annotated"),
    [
        ('sharded_to_unreduced [{"x"}, {}]', '[{}, {}], unreduced={"x"}', 'all_reduce {"x"}', "[{}, {}]",
         ["[{}, {}] partial sum(x)", "[{}, {}]"]),
        ('replicated_to_unreduced {"y"}', '[{"x"}, {}], unreduced=min{"y"}', 'all_reduce min {"y"}', '[{"x"}, {}]',
         ["[{x}, {}] partial min(y)", "[{x}, {}]"]),
    ],
)  # fmt: skip
def test_conversion_to_unreduced_keeps_the_value(
    op: str, sharding: str, reduce: str, reduced_sharding: str, annotated: list[str]
) -> None:
    text = (
        UNREDUCED.replace("OP", op)
        .replace("SHARDING", sharding)
        .replace("REDUCE", reduce)
        .replace("WHOLE", reduced_sharding)
    )
    assert shardings_of(parse_text(text)) == annotated
    counts(text)
    a = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    np.testing.assert_array_equal(mg.compile(text, target="cpu", arguments="global")(a), a)


def test_func_data_flow_edge_annotates_its_value() -> None:
    body = '  %0 = sdy.func_data_flow_edge %a : tensor<8x8xf32>\n  %r = sdy.func_data_flow_edge %0 sharding=<@mesh, [{"x"}, {?}]> : tensor<8x8xf32>'
    assert shardings_of(parse_text(on_main(body))) == ["[{x}, {}]"]


# Values on one device -----------------------------------------------------------------------------------------------

ONE = 'sdy.mesh @mesh = <["x"=4]>\nsdy.mesh @one = <[], device_ids=[2]>\nsdy.mesh @none = <[]>\n'


@pytest.mark.parametrize("sharding", ["@one, []", "@none, []", "mesh<[], device_ids=[3]>, []", "@one, [{}, {}]"])
def test_value_on_one_device_is_replicated(sharding: str) -> None:
    text = f"""{ONE}func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> tensor<8x8xf32> {{
  %0 = stablehlo.tanh %a {{sdy.sharding = #sdy.sharding_per_value<[<{sharding}>]>}} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}}"""
    module = parse_text(text)
    assert shardings_of(module) == ["[{}, {}]"] and not module.meshes
    assert counts(text) == {"all_gather": 1}


def test_argument_on_one_device_is_replicated() -> None:
    text = f"{ONE}func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@one, []>}}) -> tensor<8xf32> {{\n  return %a : tensor<8xf32>\n}}"
    (annotation,) = parse_text(text).in_annotations
    assert annotation is not None and annotation.required and annotation.sharding == P(None)


@pytest.mark.parametrize(
    ("sharding", "code", "message"),
    [
        ("mesh<[], device_ids=[4]>, []", "MG0209", "is device 4, but the program is on 4 devices, 0 to 3"),
        ('@one, [{"x"}, {}]', "MG0204", "@one has no axes"),
        ('@one, [], unreduced={"x"}', "MG0204", "@one has no axes"),
        ("@one, [{}]", "MG0204", "the sharding has 1 dims"),
    ],
)
def test_invalid_sharding_on_one_device_is_refused(sharding: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(on_main(f"  %r = sdy.sharding_constraint %a <{sharding}> : tensor<8x8xf32>", head=ONE))
    (fault,) = caught.value.diagnostics
    assert fault.code == code and message in fault.message and fault.loc is not None and fault.loc.line == 5


@pytest.mark.parametrize(
    ("producer", "warning_count"),
    [
        ("stablehlo.tanh %a : tensor<8x8xf32>", 1),
        (
            "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>",
            0,
        ),
    ],
)
def test_all_reduce_of_value_not_known_as_unreduced_gives_a_warning(producer: str, warning_count: int) -> None:
    """An all-reduce of equal copies would change the value, so meshgen drops the op and warns."""
    text = f"""sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %0 = {producer}
  %1 = sdy.all_reduce {{"x"}} %0 out_sharding=<@mesh, [{{}}, {{}}]> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}}"""
    warnings = [warning for warning in mg.compile(text, target="cpu").warnings if warning.code == "MG0109"]
    assert len(warnings) == warning_count and all(warning.loc and warning.loc.line == 4 for warning in warnings)
