"""Tests of contradictory Shardy shardings: of operand and result, of chained constraints, and of manual axes."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text

HEAD = """sdy.mesh @m = <["x"=2, "y"=2]>
sdy.mesh @same = <["x"=2, "y"=2]>
sdy.mesh @turned = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>
sdy.mesh @other = <["x"=4]>
sdy.mesh @one = <[], device_ids=[0]>
"""
PLACE = 'mesh<["x"=2, "y"=2]>'


def on(sharding: str, line: str, kind: str = "tensor<8x8xf32>") -> str:
    attribute = f" {{sdy.sharding = #sdy.sharding<{sharding}>}}" if sharding else ""
    return (
        f"{HEAD}func.func @main(%a: {kind}{attribute}) -> {kind} {{\n  %0 = {line} : {kind}\n  return %0 : {kind}\n}}\n"
    )


def assert_refused(text: str, code: str, message: str, line: int) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(text, "m.mlir")
    assert {(fault.code, str(fault.loc)) for fault in caught.value.diagnostics} == {(code, f"m.mlir:{line}")}


GATHER = 'sdy.all_gather [{"x"}, {}] %a out_sharding=<MESH, [{}, {"y"}]>'
PERMUTE = "sdy.collective_permute %a out_sharding=<MESH, [DIM, {}]>"

# Value: the operand's sharding, the op, and the expected message.
CONTRADICTIONS = {
    "a collective to another order of devices": ('@m, [{"x"}, {"y"}]', GATHER.replace("MESH", "@turned"), "@turned.* of other axes or devices|of other axes or devices"),
    "a permutation to other axes": ('@m, [{"x"}, {}]', PERMUTE.replace("MESH", "@other").replace("DIM", '{"x"}'), "of other axes or devices"),
    "a permutation to other sizes on another mesh": ('@m, [{"x"}, {}]', PERMUTE.replace("MESH", "@turned").replace("DIM", '{"x", "y"}'), "dim 0 has 2 shards, but out_sharding has 4"),
    "a collective over a mesh that is written in place": (f'{PLACE}, [{{}}, {{"y"}}]', GATHER.replace("MESH", PLACE), "dim 0 of the operand is split along"),
    "a collective from a mesh of another name": ('@m, [{"y"}, {}]', GATHER.replace("MESH", "@same"), "dim 0 of the operand is split along"),
    "unreduced along more": ('@m, [{"x"}, {}]', 'sdy.sharded_to_unreduced [{"x"}, {}] %a out_sharding=<@m, [{}, {}], unreduced={"x", "y"}>', "along its axes and those before it, which are none"),
    "unreduced along less": ('@m, [{}, {}], unreduced={"y"}', 'sdy.replicated_to_unreduced {"x"} %a out_sharding=<@m, [{}, {}], unreduced={"x"}>', "which are y"),
    "unreduced already": ('@m, [{}, {}], unreduced={"x"}', 'sdy.replicated_to_unreduced {"x"} %a out_sharding=<@m, [{}, {}], unreduced={"x"}>', "which are x"),
    "a constraint that forgets the kind": ('@m, [{}, {}], unreduced=max{"x"}', 'sdy.sharding_constraint %a <@m, [{}, {}], unreduced={"x"}>', "unreduced along 'x' by max, but is to be unreduced along 'x' by sum"),
    "a reshard to another kind": ('@m, [{}, {}], unreduced=min{"x"}', 'sdy.reshard %a <@m, [{}, {}], unreduced=max{"y", "x"}>', "by min, but .* along 'x' by max"),
    "replicated over axes that one device lacks": ("", 'sdy.sharding_constraint %a <@one, [], replicated={"x"}>', "@one has no axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictory_shardings_are_refused_at_their_location(name: str) -> None:
    sharding, line, message = CONTRADICTIONS[name]
    assert_refused(on(sharding, line), "MG0204", message, 7)


SOUND = {
    "from a mesh of another name": ('@m, [{"x"}, {"y"}]', GATHER.replace("MESH", "@same")),
    "over a mesh that is written in place": ('@m, [{"x"}, {"y"}]', GATHER.replace("MESH", PLACE)),
    "to another order of devices": ('@m, [{"x"}, {}]', PERMUTE.replace("MESH", "@turned").replace("DIM", '{"y"}')),
    "from one device": ("@one, []", 'sdy.all_slice [{"x"}, {}] %a out_sharding=<@m, [{"x"}, {}]>'),
    "unreduced along both": ('@m, [{}, {}], unreduced={"y"}', 'sdy.replicated_to_unreduced {"x"} %a out_sharding=<@m, [{}, {}], unreduced={"x", "y"}>'),
    "reduced before another kind": ('@m, [{}, {}], unreduced=max{"x"}', 'sdy.reshard %a <@m, [{}, {}], unreduced={"y"}>'),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_consistent_shardings_are_imported(name: str) -> None:
    assert parse_text(on(*SOUND[name])).graph.nodes[-1].op == "annotate"


@pytest.mark.parametrize("sharding", ['[{"x"}]', "[{}]", '[], replicated={"x"}', '[], unreduced={"x"}'])
def test_sharding_of_a_token_is_refused(sharding: str) -> None:
    token = "!stablehlo.token"
    assert_refused(on(f"@m, {sharding}", "stablehlo.after_all %a", token), "MG0204", "a token has no dims", 6)
    assert_refused(on("", f"sdy.sharding_constraint %a <@m, {sharding}>", token), "MG0204", "a token has no dims", 7)


MANUAL = """sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@m, [{"x"}]>] out_shardings=[<@m, [{"x"}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
    %1 = LINE : tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


@pytest.mark.parametrize(
    "line",
    [
        "sdy.sharding_constraint %b <@m, [{}], replicated={AXIS}>",
        "sdy.reshard %b <@m, [{}], replicated={AXIS}>",
        "stablehlo.tanh %b {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}], replicated={AXIS}>]>}",
    ],
)
def test_replication_over_manual_axis_inside_body_is_refused(line: str) -> None:
    assert_refused(
        MANUAL.replace("LINE", line.replace("AXIS", '"x"')), "MG0203", r"names \['x'\], but \['x'\] are manual", 4
    )
    assert parse_text(MANUAL.replace("LINE", line.replace("AXIS", '"y"'))).graph.outputs
