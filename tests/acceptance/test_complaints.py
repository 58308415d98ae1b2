"""Frequent complaints about other sharding compilers, one program each. Meshgen must compute correct results, report
the source line, or explain its choice.
"""

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
    """Compile `program` for `mesh`, require that the results match a single-device run, and return the executable."""
    names = program.__code__.co_varnames[: len(shapes)]
    out = specs.pop("out", None)
    types = [f"f32[{','.join(map(str, shape))}]" for shape in shapes]
    arrays = [np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in enumerate(shapes)]
    ins = {name: specs[name] for name in names if name in specs}
    sharded = mg.compile(program, mesh, args=types, in_specs=ins, out_specs=out, target="cpu")
    single_device = mg.compile(program, dict.fromkeys(mesh, 1), args=types, target="cpu")
    np.testing.assert_allclose(sharded(*arrays), single_device(*arrays), rtol=0, atol=1e-4)
    return sharded


def test_reshape_without_matching_split_is_resharded() -> None:
    column_split = ran(lambda x: mg.reshape(x, (16, 6)), TWO, [(12, 8)], x=P(None, "x"))
    assert [collective.kind for collective in column_split.comms] == ["all_to_all"], (
        "to rows, of which the result has its own"
    )
    row_split = ran(lambda x: mg.reshape(x, (16, 6)), FOUR, [(12, 8)], x=P("x"), out=P("x"))
    assert len(row_split.comms) == 0


def test_contracted_dims_with_permuted_axes_are_not_treated_as_equal() -> None:
    executable = ran(lambda a, b: a @ b, {"p": 2, "q": 3}, [(5, 12), (12, 7)], a=P(None, ("p", "q")), b=P(("q", "p")))
    assert executable.comms.count("permute") == 1 and executable.comms.count("all_reduce") == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 10])
def test_uneven_sizes_lose_no_elements(rows: int) -> None:
    ran(lambda x: mg.tanh(x) * 2.0, FOUR, [(rows, 16)], x=P("x"))
    ran(lambda x: mg.softmax(x, axis=0), FOUR, [(rows, 3)], x=P("x"))
    ran(lambda x: mg.sum(x, axis=1), FOUR, [(3, rows)], x=P(None, "x"))


def test_uneven_heads_are_gathered_along_half_of_the_axis() -> None:
    """30 heads on 4 devices can be split by 2. The reshape keeps the split by this half of the axis and gathers along
    the other half.
    """
    executable = ran(lambda x, w: mg.reshape(x @ w, (8, 30, 16)), FOUR, [(8, 32), (32, 480)], w=P(None, "x"))
    (row,) = executable.comms
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
def test_data_movement_is_correct_with_one_or_no_row_per_device(name: str, rows: int, mesh: dict[str, int]) -> None:
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
def test_partial_results_are_reduced_with_kind_of_reduction(name: str) -> None:
    executable = ran(REDUCTIONS[name], FOUR, [(6, 4)], x=P("x"), out=P(None))
    assert {row.reduction for row in executable.comms} <= {"max", "min", "product", "and", "or", "sum", ""}


def test_saved_module_holds_unsharded_weights_for_every_mesh(tmp_path: Path) -> None:
    x, w = (np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in ((0, (8, 16)), (1, (16, 12))))
    for size in (2, 3, 4):
        path = tmp_path / f"{size}.mgx"
        args = ["f32[8,16]", "f32[16,12]"]
        executable = mg.compile(lambda x, w: x @ w, {"a": size}, args=args, in_specs={"w": P("a")}, target="cpu")
        executable.save(path, weights={"w": w})
        np.testing.assert_allclose(mg.load(path)(x), x @ w, rtol=0, atol=1e-4)


def test_resharding_that_swaps_dims_needs_no_all_gather() -> None:
    executable = ran(lambda x: x * 2.0, {"x": 2, "y": 4}, [(8, 16, 8)], x=P("y", None, "x"), out=P(None, ("x", "y")))
    assert executable.gathers() == [] and executable.comms.count("all_gather") == 0
    assert executable.comms.ring_bytes <= (1 / 2 + 3 / 4) * 8 * 16 * 8 * 4 / 8  # two exchanges: one along each axis


def test_comms_tree_names_op_reshard_and_collective() -> None:
    executable = ran(lambda a, w: a @ w, TWO, [(8, 4), (4, 6)], a=P("x"), w=P("x"))
    assert executable.comms.count("all_gather") == 1 and executable.comms.count("all_reduce") == 0
    operation, reshard, collective = executable.tree().splitlines()
    assert "dot_general" in operation and "%w [{x}, {}] -> [{}, {}]" in reshard and "#0 all_gather over x" in collective
    with pytest.raises(ShardingError, match="MG0210"):
        mg.compile(lambda a, w: a @ w, TWO, args=["f32[8,4]", "f32[4,6]"], in_specs={"a": P("x"), "w": P("x")},
                   target="cpu", strict=True)  # fmt: skip


def test_largest_live_buffers_are_listed_with_source_lines() -> None:
    memory = ran(lambda a, w: mg.tanh(a @ w), TWO, [(8, 4), (4, 6)], a=P("x")).memory
    assert [b.bytes for b in memory.live_at_peak] == sorted((b.bytes for b in memory.live_at_peak), reverse=True)
    assert all("test_complaints.py:" in b.source for b in memory.live_at_peak if b.kind != "constant")


def test_all_unsupported_ops_are_reported_at_once() -> None:
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = stablehlo.custom_call @mine(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %c = "my.op"(%b) : (tensor<8xf32>) -> tensor<8xf32>
  %d = stablehlo.uniform_quantize %c : tensor<8xf32>
  return %d : tensor<8xf32>
}"""
    with pytest.raises(ProgramError) as error:
        api.plan(text, TWO, target="cpu")
    reported = [(d.code, d.loc.line if d.loc else 0, bool(d.hint)) for d in error.value.diagnostics]
    assert reported == [("MG0103", 2, True), ("MG0103", 3, True), ("MG0103", 4, True)]


def test_reports_and_schedule_count_the_same_collectives() -> None:
    """The volume formula, the table of collectives, the comms tree and the schedule have the same collectives and
    bytes.
    """
    executable = ran(lambda a, w: mg.softmax(a @ w), {"x": 2, "y": 2}, [(8, 4), (4, 6)], a=P("x"), w=P(None, "y"))
    volume = executable.volume
    assert volume is not None and volume.counts == executable.comms.counts
    assert volume.formula.at(executable.mesh) == executable.comms.ring_bytes == executable.cost.ring_bytes
    scheduled = [item for item in executable.plan.items if item.is_collective]
    assert len(scheduled) == len(executable.comms) and executable.tree().count("#") == len(executable.comms)


def test_axes_are_shown_in_annotation_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "p.mlir"
    path.write_text("""sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b", "a"}]>}) -> tensor<8xf32> {
  %y = stablehlo.tanh %x : tensor<8xf32>
  return %y : tensor<8xf32>
}""")
    assert main(["explain", str(path), "y", "--show", "--target", "cpu"]) == 0
    out = capsys.readouterr().out
    assert (
        "[{b,a}], as a spec b+a" in out
        and "[8@b+a]" in out
        and "0  2  1  3" in " ".join(out.split()).replace(" ", "  ")
    )


def test_custom_op_rule_keeps_operand_sharding() -> None:
    @mg.op_rule("b d, d f -> b f")
    def scaled(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        return mg.tanh(x @ w) * 2.0

    executable = ran(lambda a, w: scaled(a, w), FOUR, [(8, 4), (4, 6)], a=P("x"))
    assert len(executable.comms) == 0 and executable.fused.out_shardings[0] == P("x", None)


def test_required_annotation_wins_over_cheaper_sharding() -> None:
    def annotated(a: mg.Tensor) -> mg.Tensor:
        return mg.annotate(mg.tanh(a), P(None, "x"))

    def hinted(a: mg.Tensor) -> mg.Tensor:
        return mg.annotate(mg.tanh(a), P(None, "x"), required=False)

    required_plan = ran(annotated, TWO, [(8, 4)], a=P("x"))
    hinted_plan = ran(hinted, TWO, [(8, 4)], a=P("x"), out=P("x"))
    assert required_plan.comms.ring_bytes > hinted_plan.comms.ring_bytes == 0
    assert required_plan.fused.out_shardings[0] == P(None, "x")


def test_caches_distinguish_sizes_meshes_and_splits() -> None:
    """In one process, cached shardings and kernels of a function must not be reused for other sizes, meshes or splits."""
    for rows in (8, 3):
        for mesh in (TWO, FOUR, {"x": 3}):
            for spec in (P("x"), P(None, "x")):
                executable = ran(lambda a, w: mg.softmax(a @ w, axis=0), mesh, [(rows, 6), (6, 12)], a=spec)
                tile, parts = executable.stages["partition"].graph.inputs[0].type.sizes, mesh["x"]
                assert tile == ((-(-rows // parts), 6) if spec == P("x") else (rows, -(-6 // parts)))


def test_collectives_of_overlapping_groups_have_one_proven_order() -> None:
    """Gradient collectives over dp overlap with activation collectives over tp, on two communicators. The verifier must
    refuse a plan that does not fix their order.
    """

    def gradients_and_activations(x: mg.Tensor, w1: mg.Tensor, w2: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
        h = mg.tanh(x @ w1)
        return mg.sum(mg.transpose(x, (1, 0)) @ h, axis=1), mg.tanh(h @ w2)

    executable = mg.compile(
        gradients_and_activations, {"dp": 2, "tp": 2}, args=["f32[8,16]", "f32[16,8]", "f32[8,16]"], target="cpu",
        in_specs={"x": P("dp"), "w1": P(None, "tp"), "w2": P("tp", None)}, out_specs=[P(None), P("dp", None)],
    )  # fmt: skip
    ordered = [index for index, item in enumerate(executable.plan.items) if item.communicates]
    assert len({tuple(executable.plan.items[index].attrs.axes) for index in ordered}) > 1
    check(executable.plan, executable.mesh)
    items = list(executable.plan.items)
    items[ordered[1]] = replace(items[ordered[1]], stream=0, waits=())
    with pytest.raises(ScheduleError, match=r"MG040[12]"):
        check(replace(executable.plan, items=tuple(items)), executable.mesh)


def test_every_op_has_sharding_rule() -> None:
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
    }  # size queries are folded; propagation handles annotations and regions; later stages create the others
    assert sorted({name for name in OPS if not has_rule(name)} - communicate - without) == []
