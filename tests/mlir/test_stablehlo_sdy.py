"""Tests of Shardy's meshes and shardings as JAX emits them."""

from __future__ import annotations

import re

import pytest
from xdsl.ir import Attribute

from meshgen.errors import ProgramError
from meshgen.ir.graph import Annotation, Module
from meshgen.mlir.families import dialects
from meshgen.mlir.parser import TextParser
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.spec import Sharding
from meshgen.testing.oracle import check

MESH = 'sdy.mesh @mesh = <["a"=2, "b"=4]>\n'


def with_argument(sharding: str, rank: int = 2, mesh: str = MESH) -> str:
    kind = f"tensor<{'8x' * rank}f32>"
    return f"{mesh}func.func @main(%x: {kind} {{sdy.sharding = #sdy.sharding<{sharding}>}}) -> {kind} {{\n  return %x : {kind}\n}}\n"


@pytest.mark.parametrize(
    "text, dims, is_open, partial",
    [
        ('@mesh, [{"a"}, {}]', (("a",), ()), (), ()),
        ('@mesh, [{"b", "a"}, {?}]', (("b", "a"), ()), (False, True), ()),
        ('@mesh, [{"a", "b":(1)2}, {"b":(2)2, ?}p1]', (("a", "b:(1)2"), ("b:(2)2",)), (False, True), ()),
        ('@mesh, [{?}, {"a"}], replicated={"b"}', ((), ("a",)), (), ()),
        ('@mesh, [{}, {"a"}], unreduced={"b"}', ((), ("a",)), (), (("b", "sum"),)),
        ('mesh<["a"=2, "b"=4]>, [{}, {"b"}]', ((), ("b",)), (), ()),
    ],
)
def test_argument_sharding_is_imported(text: str, dims: object, is_open: object, partial: object) -> None:
    (annotation,) = parse_text(with_argument(text), "m.mlir").in_annotations
    assert isinstance(annotation, Annotation)
    assert (annotation.sharding.dims, annotation.open_dims, annotation.sharding.partial) == (dims, is_open, partial)
    assert annotation.required and str(annotation.loc) == "m.mlir:2"


def test_scalar_and_absent_shardings_are_imported() -> None:
    module = parse_text(with_argument("@mesh, []", rank=0))
    assert module.in_annotations[0] is not None and module.in_annotations[0].sharding == Sharding(())
    assert module.out_annotations == [None]
    assert str(module.mesh) == "Mesh(a=2, b=4)" and module.mesh.name == "mesh"


def test_sharding_constraint_becomes_a_required_annotation() -> None:
    text = MESH + (
        "func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
        '  %y = sdy.sharding_constraint %x <@mesh, [{"b"}, {?}]> : tensor<8x8xf32>\n'
        "  return %y : tensor<8x8xf32>\n}\n"
    )
    module = parse_text(text)
    node = next(node for node in module.graph.nodes if node.op == "annotate")
    assert node.attrs.sharding.dims == (("b",), ()) and node.attrs.open_dims == (False, True)
    assert node.attrs.required and node.attrs.as_result
    reparsed = parse_text(print_text(module))
    assert [n.attrs.sharding for n in reparsed.graph.nodes if n.op == "annotate"] == [node.attrs.sharding]


def test_result_sharding_becomes_an_annotation() -> None:
    text = MESH + (
        "func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
        '  %y = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"a"}]>]>} : tensor<8x8xf32>\n'
        "  return %y : tensor<8x8xf32>\n}\n"
    )
    graph = parse_text(text).graph
    assert [node.op for node in graph.nodes] == ["tanh", "annotate"]
    assert graph.outputs == graph.nodes[1].results and graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    "text, code",
    [
        (with_argument('@mesh, [{"a"}]'), "MG0204"),
        (with_argument('@mesh, [{"a"}, {"a"}]'), "MG0203"),
        (with_argument('@mesh, [{"c"}, {}]'), "MG0202"),
        (with_argument("@other, [{}, {}]"), "MG0201"),
        (with_argument("@mesh"), "MG0204"),
        (with_argument('@second, [{"b"}, {}]', mesh=MESH + 'sdy.mesh @second = <["a"=4]>\n'), "MG0202"),
        (with_argument("@mesh, [{}, {}]", mesh=MESH + 'sdy.mesh @mesh = <["a"=4]>\n'), "MG0201"),
    ],
)
def test_invalid_sharding_is_refused(text: str, code: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    assert code in [fault.code for fault in caught.value.diagnostics]


IN_PLACE = 'mesh<["x"=4, "y"=2]>'
WRITTEN = f"""func.func @main(%a: tensor<8x6xf32> {{sdy.sharding = #sdy.sharding<{IN_PLACE}, [{{"x"}}, {{}}]>}}) -> tensor<8x6xf32> {{
  %0 = stablehlo.negate %a {{sdy.sharding = #sdy.sharding_per_value<[<{IN_PLACE}, [{{}}, {{"y"}}]>]>}} : tensor<8x6xf32>
  %1 = sdy.sharding_constraint %0 <{IN_PLACE}, [{{"y"}}, {{}}]> : tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}}"""


@pytest.mark.parametrize("is_declared", [False, True])
def test_inline_mesh_imports_like_a_declared_one(is_declared: bool) -> None:
    text = f'sdy.mesh @mesh = <["x"=4, "y"=2]>\n{WRITTEN}' if is_declared else WRITTEN
    declared = f'sdy.mesh @mesh = <["x"=4, "y"=2]>\n{WRITTEN.replace(IN_PLACE, "@mesh")}'
    assert print_text(parse_text(text)) == print_text(parse_text(declared))


def test_invalid_inline_mesh_is_refused() -> None:
    for mesh, code, message in (
        ("mesh<>", "MG0204", "expected a sharding"),
        ("mesh<[]>", "MG0204", "has no axes"),
        ('mesh<["x"=2], device_ids=[1, 1]>', "MG0201", "has 2 devices, but device_ids"),
    ):
        with pytest.raises(ProgramError, match=message) as caught:
            parse_text(f'sdy.mesh @mesh = <["x"=2]>\n{WRITTEN.replace(IN_PLACE, mesh)}')
        assert caught.value.diagnostics[0].code == code


def test_inline_mesh_keeps_its_device_order() -> None:
    mesh = '<["x"=4, "y"=2], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]>'
    declared = f"sdy.mesh @mesh = {mesh}\n{WRITTEN.replace(IN_PLACE, '@mesh')}"
    assert print_text(parse_text(WRITTEN.replace(IN_PLACE, f"mesh{mesh}"))) == print_text(parse_text(declared))


@pytest.mark.parametrize("second", ["%1", "%0"], ids=["chained", "siblings"])
def test_second_constraint_of_a_value_is_for_its_users(second: str) -> None:
    text = f"""sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>) {{
  %0 = stablehlo.negate %a : tensor<8x6xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{{"x"}}, {{}}]> : tensor<8x6xf32>
  %2 = sdy.sharding_constraint {second} <@m, [{{}}, {{"x"}}]> : tensor<8x6xf32>
  return %1, %2 : tensor<8x6xf32>, tensor<8x6xf32>
}}"""
    module = parse_text(text)
    assert [node.attrs.as_result for node in module.graph.nodes[1:]] == [True, False]
    assert print_text(parse_text(print_text(module))) == print_text(module)


def test_unsupported_op_followed_by_a_symbol_is_named() -> None:
    text = (
        MESH
        + 'func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  %0 = sdy.other_computation<"f">(%a) : tensor<8xf32>\n  return %0 : tensor<8xf32>\n}'
    )
    with pytest.raises(ProgramError, match=r"operation sdy\.other_computation is not supported"):
        parse_text(text)


COLLECTIVES = """sdy.mesh @m = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}) -> (tensor<8x8xf32>, tensor<8x16xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.all_reduce {"y"} %0 out_sharding=<@m, [{"x"}, {}]> : tensor<8x8xf32>
  %2 = sdy.all_to_all [{"x"}: 0->1] %1 out_sharding=<@m, [{}, {"x"}]> : tensor<8x8xf32>
  %3 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : tensor<8x16xf32>
  %4 = sdy.collective_permute %3 out_sharding=<@m, [{"y":(1)2}, {"x", "y":(2)2}]> : tensor<8x16xf32>
  %5 = sdy.all_slice [{}, {}] %4 out_sharding=<@m, [{"y":(1)2}, {"x", "y":(2)2}]> : tensor<8x16xf32>
  %6 = sdy.all_gather [{}, {"y":(2)2}] %5 out_sharding=<@m, [{"y":(1)2}, {"x"}]> : tensor<8x16xf32>
  return %2, %6 : tensor<8x8xf32>, tensor<8x16xf32>
}"""
_PLAIN = re.compile(r"sdy\.(\w+) (?:([\[{][^%]*) )?(%\d) out_sharding=<([^%]*)> : (tensor<\w+>)")
_LISTS = {
    "all_reduce": ("reduction_axes", "axis_ref_list"),
    "all_to_all": ("params", "all_to_all_param_list"),
    "all_slice": ("slicing_axes", "list_of_axis_ref_lists"),
    "all_gather": ("gathering_axes", "list_of_axis_ref_lists"),
}
_NAMES = {f"sdy.{op}" for op in (*_LISTS, "collective_permute")}


def _generic(match: re.Match[str]) -> str:
    op, axes, operand, sharding, kind = match.groups()
    properties = ", {} = #sdy<{}{}>".format(*_LISTS[op], axes) if axes else ""
    return f'"sdy.{op}"({operand}) <{{out_sharding = #sdy.sharding<{sharding}>{properties}}}> : ({kind}) -> {kind}'


@pytest.mark.parametrize("text", [COLLECTIVES, _PLAIN.sub(_generic, COLLECTIVES)], ids=["pretty", "generic"])
def test_sdy_collectives_become_annotations(text: str) -> None:
    module = parse_text(text)
    annotations = [str(node.attrs.sharding) for node in module.graph.nodes if node.op == "annotate"]
    assert annotations == [
        "[{x}, {}]", "[{x}, {}]", "[{}, {x}]", "[{x}, {y}]", "[{y:(1)2}, {x,y:(2)2}]", "[{y:(1)2}, {x,y:(2)2}]", "[{y:(1)2}, {x}]",
    ]  # fmt: skip

    def lowered(imported: Module) -> Module:
        return run_stages(imported, Options("cpu"), Timing(), "partition")["partition"]

    result = check(module, pipeline=lowered)
    assert result.ok, result.faults
    moved = analyze(lowered(parse_text(text))).counts
    assert moved == {"all_reduce": 1, "all_to_all": 1, "retile": 1}, (
        "the permute and the following all_gather become one retile"
    )


def _collectives_of(text: str) -> list[tuple[str, dict[str, Attribute]]]:
    operations = TextParser(dialects().context, text, "-").parse_module().walk()
    return [(operation.name, operation.properties) for operation in operations if operation.name in _NAMES]


def test_sdy_collectives_round_trip_in_both_forms() -> None:
    """xDSL prints collectives in MLIR's generic form, while programs usually have the pretty form."""
    printed = str(TextParser(dialects().context, COLLECTIVES, "-").parse_module())
    collectives = _collectives_of(COLLECTIVES)
    assert [name for name, _ in collectives] == [f"sdy.{op}" for op, *_ in _PLAIN.findall(COLLECTIVES)]
    assert _collectives_of(printed) == collectives == _collectives_of(_PLAIN.sub(_generic, COLLECTIVES))
    assert print_text(parse_text(printed)) == print_text(parse_text(COLLECTIVES))


def test_attributes_before_operands_and_xla_markers_are_read() -> None:
    text = MESH + (
        "func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
        '  %0 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {}]>]>} %x : tensor<8x8xf32>\n'
        '  %1 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"b"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>\n'
        "  return {sdy.sharding = #sdy.sharding_per_value<[]>} %1 : tensor<8x8xf32>\n}\n"
    )
    nodes = parse_text(text).graph.nodes
    assert [str(node.attrs.sharding) for node in nodes if node.op == "annotate"] == ["[{a}, {}]", "[{}, {b}]"]


def test_inline_mesh_beside_a_declared_one_shares_its_devices() -> None:
    """An inline mesh covers the same devices as a declared mesh with equally many devices."""
    text = 'sdy.mesh @mesh = <["a"=2, "b"=4]>\n' + (
        'func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) -> tensor<8x8xf32> {\n'
        '  %0 = sdy.sharding_constraint %x <mesh<["x"=8]>, [{}, {"x"}]> : tensor<8x8xf32>\n'
        "  %1 = stablehlo.tanh %0 : tensor<8x8xf32>\n  return %1 : tensor<8x8xf32>\n}\n"
    )
    module = parse_text(text)
    assert str(module.mesh) == "Mesh(a=2, b=4)" and not module.meshes
    (sharding,) = [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]
    assert str(sharding) == "[{}, {a,b}]"


@pytest.mark.parametrize(
    "sharding",
    ['@mesh, [{"a"}, {}], weird={"b"}', '@mesh, [{"a"}, {}], unreduced=most{"b"}', "@mesh, [{a}, {}]", '@mesh, [{"a"} {}]',
     '@mesh, [{"a"}, {}], replicated={b}'],
)  # fmt: skip
def test_sharding_with_unknown_syntax_is_refused(sharding: str) -> None:
    with pytest.raises(ProgramError, match="expected a sharding"):
        parse_text(with_argument(sharding))


def test_spaces_in_a_sharding_are_optional() -> None:
    tight, loose = (parse_text(with_argument(text)) for text in ('@mesh,[{"a"},{?}p1]', '@mesh , [ {"a"} , { ? }p1 ] '))
    assert tight.in_annotations[0] is not None and loose.in_annotations[0] is not None
    assert tight.in_annotations[0].sharding == loose.in_annotations[0].sharding == Sharding((("a",), ()))


@pytest.mark.parametrize("mesh", ['<["a"=2, b=4]>', '<["a"=2, "b"=x]>', '<["a"=2], devices=[1, 0]>'])
def test_mesh_with_unknown_syntax_is_refused(mesh: str) -> None:
    with pytest.raises(ProgramError, match="expected a mesh"):
        parse_text(with_argument('@mesh, [{"a"}, {}]', mesh=f"sdy.mesh @mesh = {mesh}\n"))


@pytest.mark.parametrize(
    "attribute",
    ['#sdy.sharding<@mesh, [{"a"}]>', '#sdy.sharding_per_value<[<@mesh, [{"a"}]>, <@mesh, [{"b"}]>]>'],
)
def test_result_sharding_count_must_match_results(attribute: str) -> None:
    kind = "tensor<8xf32>"
    text = f"{MESH}func.func @main(%x: {kind}) -> {kind} {{\n  %r = stablehlo.negate %x {{sdy.sharding = {attribute}}} : {kind}\n  return %r : {kind}\n}}\n"
    with pytest.raises(ProgramError, match="one sharding for each result"):
        parse_text(text)
