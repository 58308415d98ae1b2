"""What users of other sharding compilers complain about, as programs: right numbers, a located message, or an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import P, api
from meshgen.cli import main
from meshgen.compiled.executable import Executable
from meshgen.errors import ProgramError, ScheduleError, ShardingError
from meshgen.ir.op_names import ANNOTATIONS, WITH_PROGRAMS
from meshgen.ops.op import Trait
from meshgen.ops.registry import OPS, has_rule, with_trait
from meshgen.runtime.validation.checker import check

Array = np.ndarray[Any, Any]
Program = Callable[..., Any]
TWO, FOUR = {"x": 2}, {"x": 4}


def ran(program: Program, mesh: dict[str, int], shapes: list[tuple[int, ...]], **specs: Any) -> Executable:
    """The program on all simulated ranks equals the one on a single device."""
    names = program.__code__.co_varnames[: len(shapes)]
    out = specs.pop("out", None)
    types = [f"f32[{','.join(map(str, shape))}]" for shape in shapes]
    arrays = [np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in enumerate(shapes)]
    ins = {name: specs[name] for name in names if name in specs}
    split = mg.compile(program, mesh, args=types, in_specs=ins, out_specs=out, target="cpu")
    whole = mg.compile(program, dict.fromkeys(mesh, 1), args=types, target="cpu")
    np.testing.assert_allclose(split(*arrays), whole(*arrays), rtol=0, atol=1e-4)
    return split


def test_a_reshape_that_splits_cannot_follow_is_resharded_not_guessed() -> None:
    moved = ran(lambda x: mg.reshape(x, (16, 6)), TWO, [(12, 8)], x=P(None, "x"))
    assert [each.kind for each in moved.comms] == ["all_to_all"], "to rows, of which the result has its own"
    kept = ran(lambda x: mg.reshape(x, (16, 6)), FOUR, [(12, 8)], x=P("x"), out=P("x"))
    assert len(kept.comms) == 0


def test_contracted_dims_in_another_order_of_axes_are_not_taken_as_equal() -> None:
    found = ran(lambda a, b: a @ b, {"p": 2, "q": 3}, [(5, 12), (12, 7)], a=P(None, ("p", "q")), b=P(("q", "p")))
    assert found.comms.count("permute") == 1 and found.comms.count("all_reduce") == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 10])
def test_sizes_that_do_not_divide_lose_nothing(rows: int) -> None:
    ran(lambda x: mg.tanh(x) * 2.0, FOUR, [(rows, 16)], x=P("x"))
    ran(lambda x: mg.softmax(x, axis=0), FOUR, [(rows, 3)], x=P("x"))
    ran(lambda x: mg.sum(x, axis=1), FOUR, [(3, rows)], x=P(None, "x"))


def test_heads_that_the_mesh_does_not_divide_stay_whole() -> None:
    """30 heads on 4 devices: half of the split can follow, and only the other half is gathered."""
    found = ran(lambda x, w: mg.reshape(x @ w, (8, 30, 16)), FOUR, [(8, 32), (32, 480)], w=P(None, "x"))
    (row,) = found.comms
    assert row.kind == "all_gather" and row.axes == ("x:(2)2",) and "reshape" in row.why


MOVEMENTS: dict[str, Program] = {
    "roll": lambda x: mg.concatenate([x[-1:], x[:-1]]),
    "concatenate": lambda x: mg.concatenate([x, x * 2.0]),
    "slice": lambda x: x[1:],
    "pad": lambda x: mg.pad(x, ((1, 2), (0, 0))),
    "reverse": lambda x: x[::-1],
    "difference": lambda x: x[1:] - x[:-1],
    "stack": lambda x: mg.stack([x, x], axis=1),
}


@pytest.mark.parametrize("name", MOVEMENTS)
@pytest.mark.parametrize("rows, mesh", [(4, FOUR), (2, FOUR), (5, FOUR), (3, {"x": 3})])
def test_data_moves_right_with_one_row_and_none_per_device(name: str, rows: int, mesh: dict[str, int]) -> None:
    ran(MOVEMENTS[name], mesh, [(rows, 3)], x=P("x"))


REDUCTIONS: dict[str, Program] = {
    "max": lambda x: mg.max(x, axis=0),
    "min": lambda x: mg.min(x, axis=0),
    "prod": lambda x: mg.prod(x, axis=0),
    "all": lambda x: mg.where(mg.all(x > -9.0, axis=0), 1.0, 0.0),
    "any": lambda x: mg.where(mg.any(x > 1.0, axis=0), 1.0, 0.0),
    "mean": lambda x: mg.mean(x, axis=0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_across_devices_are_of_their_own_kind(name: str) -> None:
    found = ran(REDUCTIONS[name], FOUR, [(6, 4)], x=P("x"), out=P(None))
    assert {row.reduction for row in found.comms} <= {"max", "min", "product", "and", "or", "sum", ""}


def test_a_saved_module_holds_whole_weights_for_every_mesh(tmp_path: Path) -> None:
    x, w = (np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in ((0, (8, 16)), (1, (16, 12))))
    for size in (2, 3, 4):
        place = tmp_path / f"{size}.mgx"
        args = ["f32[8,16]", "f32[16,12]"]
        executable = mg.compile(lambda x, w: x @ w, {"a": size}, args=args, in_specs={"w": P("a")}, target="cpu")
        executable.save(place, weights={"w": w})
        np.testing.assert_allclose(mg.load(place)(x), x @ w, rtol=0, atol=1e-4)


def test_splits_that_swap_dims_and_join_axes_are_never_gathered_whole() -> None:
    found = ran(lambda x: x * 2.0, {"x": 2, "y": 4}, [(8, 16, 8)], x=P("y", None, "x"), out=P(None, ("x", "y")))
    assert found.gathers() == [] and found.comms.count("all_gather") == 0
    assert found.comms.ring_bytes <= (1 / 2 + 3 / 4) * 8 * 16 * 8 * 4 / 8  # two exchanges, one axis after the other


def test_counts_can_be_asserted_and_the_tree_names_operation_reshard_and_collective() -> None:
    found = ran(lambda a, w: a @ w, TWO, [(8, 4), (4, 6)], a=P("x"), w=P("x"))
    assert found.comms.count("all_gather") == 1 and found.comms.count("all_reduce") == 0
    operation, reshard, collective = found.tree().splitlines()
    assert "dot_general" in operation and "%w [{x}, {}] -> [{}, {}]" in reshard and "#0 all_gather over x" in collective
    with pytest.raises(ShardingError, match="MG0210"):
        mg.compile(lambda a, w: a @ w, TWO, args=["f32[8,4]", "f32[4,6]"], in_specs={"a": P("x"), "w": P("x")},
                   target="cpu", strict=True)  # fmt: skip


def test_the_largest_live_buffers_are_listed_with_their_lines() -> None:
    memory = ran(lambda a, w: mg.tanh(a @ w), TWO, [(8, 4), (4, 6)], a=P("x")).memory
    assert [b.bytes for b in memory.live_at_peak] == sorted((b.bytes for b in memory.live_at_peak), reverse=True)
    assert all("test_complaints.py:" in b.source for b in memory.live_at_peak if b.kind != "constant")


def test_all_operations_that_are_not_supported_are_listed_before_any_work() -> None:
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = stablehlo.custom_call @mine(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %c = "my.op"(%b) : (tensor<8xf32>) -> tensor<8xf32>
  %d = stablehlo.uniform_quantize %c : tensor<8xf32>
  return %d : tensor<8xf32>
}"""
    with pytest.raises(ProgramError) as error:
        api.plan(text, TWO, target="cpu")
    found = [(d.code, d.loc.line if d.loc else 0, bool(d.hint)) for d in error.value.diagnostics]
    assert found == [("MG0103", 2, True), ("MG0103", 3, True), ("MG0103", 4, True)]


def test_what_is_said_is_what_runs() -> None:
    """The formula, the table, the tree and the schedule count the same collectives and bytes."""
    found = ran(lambda a, w: mg.softmax(a @ w), {"x": 2, "y": 2}, [(8, 4), (4, 6)], a=P("x"), w=P(None, "y"))
    volume = found.volume
    assert volume is not None and volume.counts == found.comms.counts
    assert volume.formula.at(found.mesh) == found.comms.ring_bytes == found.cost.ring_bytes
    scheduled = [item for item in found.plan.items if item.is_collective]
    assert len(scheduled) == len(found.comms) and found.tree().count("#") == len(found.comms)


def test_axes_are_shown_in_the_order_in_which_they_were_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "p.mlir"
    place.write_text("""sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b", "a"}]>}) -> tensor<8xf32> {
  %y = stablehlo.tanh %x : tensor<8xf32>
  return %y : tensor<8xf32>
}""")
    assert main(["explain", str(place), "y", "--show", "--target", "cpu"]) == 0
    out = capsys.readouterr().out
    assert (
        "[{b,a}], as a spec b+a" in out
        and "[8@b+a]" in out
        and "0  2  1  3" in " ".join(out.split()).replace(" ", "  ")
    )


def test_a_custom_operation_takes_one_line_and_is_not_replicated() -> None:
    @mg.op_rule("b d, d f -> b f")
    def scaled(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        return mg.tanh(x @ w) * 2.0

    found = ran(lambda a, w: scaled(a, w), FOUR, [(8, 4), (4, 6)], a=P("x"))
    assert len(found.comms) == 0 and found.fused.out_shardings[0] == P("x", None)


def test_annotations_win_over_what_is_cheaper() -> None:
    def wished(a: mg.Tensor) -> mg.Tensor:
        return mg.annotate(mg.tanh(a), P(None, "x"))

    def hinted(a: mg.Tensor) -> mg.Tensor:
        return mg.annotate(mg.tanh(a), P(None, "x"), required=False)

    kept = ran(wished, TWO, [(8, 4)], a=P("x"))
    lost = ran(hinted, TWO, [(8, 4)], a=P("x"), out=P("x"))
    assert kept.comms.ring_bytes > lost.comms.ring_bytes == 0
    assert kept.fused.out_shardings[0] == P(None, "x")


def test_nothing_that_was_compiled_for_other_sizes_or_meshes_is_used_again() -> None:
    """One process, one function: what is remembered of shardings and kernels is told apart by sizes, mesh and split."""
    for rows in (8, 3):
        for mesh in (TWO, FOUR, {"x": 3}):
            for spec in (P("x"), P(None, "x")):
                found = ran(lambda a, w: mg.softmax(a @ w, axis=0), mesh, [(rows, 6), (6, 12)], a=spec)
                tile, parts = found.stages["partition"].graph.inputs[0].type.sizes, mesh["x"]
                assert tile == ((-(-rows // parts), 6) if spec == P("x") else (rows, -(-6 // parts)))


def test_all_ranks_run_collectives_of_all_groups_in_one_proven_order() -> None:
    """Gradients over dp hide behind activations over tp, on two communicators: a plan that leaves their order open is refused."""

    def two(x: mg.Tensor, w1: mg.Tensor, w2: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
        h = mg.tanh(x @ w1)
        return mg.sum(mg.transpose(x, (1, 0)) @ h, axis=1), mg.tanh(h @ w2)

    found = mg.compile(
        two, {"dp": 2, "tp": 2}, args=["f32[8,16]", "f32[16,8]", "f32[8,16]"], target="cpu",
        in_specs={"x": P("dp"), "w1": P(None, "tp"), "w2": P("tp", None)}, out_specs=[P(None), P("dp", None)],
    )  # fmt: skip
    ordered = [number for number, item in enumerate(found.plan.items) if item.communicates]
    assert len({tuple(found.plan.items[number].attrs.axes) for number in ordered}) > 1
    check(found.plan, found.mesh)
    items = list(found.plan.items)
    items[ordered[1]] = replace(items[ordered[1]], stream=0, waits=())
    with pytest.raises(ScheduleError, match=r"MG040[12]"):
        check(replace(found.plan, items=tuple(items)), found.mesh)


def test_every_operation_has_a_rule() -> None:
    """No operation waits for somebody to write a strategy for it."""
    communicate = {*with_trait(Trait.COLLECTIVE), "process_index", "mask_padding"}
    without = {
        *with_trait(Trait.SIZE_QUERY),
        *ANNOTATIONS,
        *WITH_PROGRAMS,
        "optimization_barrier",
        "kernel",
        "view",
        "subview",
        "join",
        "windows",
        "recurrence",
        "update_in_place",
    }  # replaced once sizes are known; annotations; regions and barriers are walked through; made by later stages
    assert sorted({name for name in OPS if not has_rule(name)} - communicate - without) == []
