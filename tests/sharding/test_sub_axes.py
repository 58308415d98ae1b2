"""One axis factored in two ways in the same program (6 devices as 2 x 3 and as 3 x 2): correct or rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ShardingError
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import verify_program
from meshgen.sharding.materialize import materialize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import Sharding, fit
from meshgen.testing.oracle import check
from tests.sharding.local_programs import Program, tensor

SIX, TWELVE = {"y": 6}, {"x": 2, "y": 12}
CASES = [
    (SIX, "i32[2,12]", mg.P(None, "y:(2)3"), mg.P("y:(1)3")),
    (SIX, "i32[3]", mg.P("y:(1)3"), mg.P("y:(1)2")),
    (SIX, "i32[7,5]", mg.P("y:(1)2", "y:(2)3"), mg.P("y:(1)3", "y:(3)2")),
    (SIX, "c128[4,6]", mg.P("y:(1)2"), mg.P(None, "y:(1)3")),
    (TWELVE, "i32[2,1]", mg.P("y:(2)2"), mg.P("y:(2)3", "y:(6)2")),
    (TWELVE, "i32[13,8]", mg.P(("y:(3)4", "x")), mg.P("x", ("y:(4)3", "y:(1)2"))),
]


def numbered(text: str) -> np.ndarray:
    kind = tensor(text)
    return (np.arange(kind.size) + 1).reshape(kind.sizes).astype(kind.numpy_dtype)


@pytest.mark.parametrize("mesh, text, before, after", CASES, ids=lambda value: str(value).replace(" ", ""))
def test_arguments_and_results_can_factor_axis_differently(
    mesh: dict, text: str, before: Sharding, after: Sharding
) -> None:
    x = numbered(text)
    exe = mg.compile(
        lambda x: x + x, mesh, args=[text], in_specs={"x": before}, out_specs={"result": after}, target="cpu"
    )
    np.testing.assert_array_equal(exe(x), x + x)
    shardings = [*exe.stages["partition"].in_shardings, *exe.stages["partition"].out_shardings]
    assert shardings == [fit(before, x.ndim), fit(after, x.ndim)]


def test_annotation_can_factor_axis_differently() -> None:
    """Check a dot that the arguments shard by one factoring of the axis, and an annotated copy sharded by another
    factoring.

    Both the dot and its copy have users.
    """

    def program(x, w):
        h = x @ w
        return mg.annotate(h, mg.P("y:(1)3", "y:(3)2")) * 2 + h, mg.sum(h, axis=0)

    x, w = numbered("i32[10,6]"), numbered("i32[6,7]")
    specs = {"x": mg.P("y:(1)2", "y:(2)3"), "w": mg.P("y:(2)3")}
    exe = mg.compile(program, SIX, args=["i32[10,6]", "i32[6,7]"], in_specs=specs, target="cpu")
    for got, expected in zip(exe(x, w), (3 * (x @ w), (x @ w).sum(0)), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_partial_over_non_nesting_sub_axis_is_resharded() -> None:
    before, after = mg.P(None, partial={"y:(1)3": "sum"}), mg.P(None, partial={"y:(1)2": "sum"})
    exe = mg.compile(
        lambda x: x - 1, SIX, args=["i32[6]"], in_specs={"x": before}, out_specs={"result": after}, target="cpu"
    )
    x = numbered("i32[6]")
    np.testing.assert_array_equal(exe(x), x - 1)


def test_equal_layouts_by_different_sub_axes_need_no_collective() -> None:
    halves, thirds = mg.P(("y:(1)2", "y:(2)3")), mg.P(("y:(1)3", "y:(3)2"))
    exe = mg.compile(lambda x: mg.annotate(x, thirds) - x, SIX, args=["i32[12]"], in_specs={"x": halves}, target="cpu")
    assert not exe.comms.counts
    np.testing.assert_array_equal(exe(numbered("i32[12]")), np.zeros(12, np.int32))


def test_non_nesting_hint_is_overridden_and_reported() -> None:
    def program(x):
        return mg.annotate(x + 1, mg.P("y:(1)3", "x"), required=False) * 2

    exe = mg.compile(program, {"x": 2, **SIX}, args=["i32[6,4]"], in_specs={"x": mg.P("y:(1)2", "x")}, target="cpu")
    x = numbered("i32[6,4]")
    np.testing.assert_array_equal(exe(x), (x + 1) * 2)
    assert "along y:(1)3 it splits dim 0, but it is not" in str(exe.explain(verbose=True))


def test_for_users_annotation_with_non_nesting_sub_axis_is_rejected() -> None:
    def program(x):
        return mg.annotate(x + 1, mg.P("y:(1)3"), as_result=False) * 2

    with pytest.raises(ShardingError, match=r"MG0206.*cannot be kept by its users"):
        mg.compile(program, SIX, args=["i32[6]"], in_specs={"x": mg.P("y:(1)2")}, out_specs={"result": mg.P("y:(1)2")})


def test_non_nesting_sharding_options_are_rejected() -> None:
    def program(x, y):
        return mg.matmul(x, x, sharding_option=[["y:(1)2"], [], []]) + mg.matmul(
            y, y, sharding_option=[["y:(1)3"], [], []]
        )

    with pytest.raises(ShardingError, match=r"MG0203.*\['y:\(1\)3'\] do not nest"):
        mg.compile(program, SIX, args=["f32[6,6]", "f32[6,6]"], target="cpu")


def test_sharding_with_non_nesting_sub_axes_is_rejected() -> None:
    with pytest.raises(ShardingError, match=r"MG0203.*not sub-axes of one factorization"):
        mg.compile(lambda x: x, SIX, args=["i32[5,7]"], in_specs={"x": mg.P("y:(3)2", "y:(1)2")}, target="cpu")


def test_partition_of_non_nesting_operand_tiles_is_rejected() -> None:
    p = Program(y=6)
    a, b = p.input("f32[6,4]", mg.P("y:(1)2")), p.input("f32[4,6]", mg.P(None, "y:(1)3"))
    attrs = {
        "lhs_batch": (),
        "rhs_batch": (),
        "lhs_contract": (1,),
        "rhs_contract": (0,),
        "precision": ("DEFAULT",) * 2,
    }
    with pytest.raises(ShardingError, match=r"MG0206.*factored in two ways"):
        p.local(p.add("dot_general", [a, b], "f32[6,6]", mg.P("y:(1)2"), **attrs))


def test_gather_between_non_nesting_sub_axes_is_rejected() -> None:
    p = Program(y=6)
    x = p.input("f32[6]", mg.P("y:(1)2"))
    with pytest.raises(ShardingError, match=r"MG0206.*factored in two ways"):
        p.local(p.add("all_gather", [x], "f32[6]", mg.P("y:(1)3"), axes=("y:(1)2",), dim=0))


def test_sub_axis_stages_round_trip_through_text() -> None:
    """On 6 devices, the collectives run over thirds and halves, which are not prime factors in mesh order."""
    specs = {"in_specs": {"x": mg.P("y")}, "out_specs": {"result": mg.P("y:(1)3")}}
    exe = mg.compile(lambda x: x * 2, SIX, args=["i32[6,4]"], **specs, target="cpu")
    for stage in ("propagate", "materialize", "optimize"):
        text = exe.as_text(stage)
        module = parse_text(text)
        verify_program(module)
        assert print_text(module) == text


def test_partial_over_axis_of_one_device_moves_to_dim_of_same_axis(tmp_path: Path) -> None:
    """Check a reshard from partial over an axis to sharded over it: no intermediate sharding may name the axis twice."""
    text = """builtin.module {
  shard.grid @mesh(shape = 2x1) {axis_names = ["x", "z"]}
  func.func public @main(%a: tensor<1x3x1xi8> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["x"], []] partial = xor["z"] open = [false, false, false]>}) -> (tensor<1x3x1xi8> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["z"], ["x"]] open = [true, false, false]>}) {
    func.return %a : tensor<1x3x1xi8>
  }
}"""
    exe = mg.compile(text, target="cpu")
    exe.save(tmp_path / "moved.mgx")
    a = np.arange(3, dtype=np.int8).reshape(1, 3, 1)
    np.testing.assert_array_equal(mg.load(tmp_path / "moved.mgx")(a), a)


@pytest.mark.parametrize("strength", ["", "hint "])
def test_option_over_full_axis_is_kept_beside_sub_axis_annotation(strength: str) -> None:
    """Sharding two rows over eight devices differs from sharding over four, then over two: uneven tiles do not nest."""
    module = parse_text(f"""
shard.grid @mesh(shape = 8) {{axis_names = ["x"]}}
func.func @main(%x: tensor<9x1xi32> {{meshgen.sharding = #meshgen.annotation<@mesh, [["x:(1)4"], []] {strength}open = [false, true]>}}) -> tensor<2x1xi32> {{
  %y = stablehlo.slice %x [7:9, 0:1] {{sharding = [[0], []]}} : (tensor<9x1xi32>) -> tensor<2x1xi32>
  return %y : tensor<2x1xi32>
}}""")
    done = propagate(module)
    assert done.graph.nodes[0].sharding.option[0] == ("x",)
    assert check(module, pipeline=lambda entered: partition(materialize(propagate(entered)))).ok


def test_partial_value_may_have_different_kind_per_sub_axis() -> None:
    module = parse_text("""
shard.grid @mesh(shape = 4) {axis_names = ["y"]}
func.func @main(%x: tensor<3xi16>) -> tensor<3xi16> {
  %two_kinds = shard.sharding @mesh split_axes = [[]] partial = min["y:(1)2"] or["y:(2)2"] : !shard.sharding
  %0 = shard.shard %x to %two_kinds annotate_for_users : tensor<3xi16>
  %1 = stablehlo.negate %0 : tensor<3xi16>
  return %1 : tensor<3xi16>
}""")
    done = propagate(module)
    assert done.graph.nodes[0].sharding.results[0].partial == (("y:(1)2", "min"), ("y:(2)2", "or"))
    assert check(module, pipeline=lambda entered: partition(materialize(propagate(entered)))).ok
