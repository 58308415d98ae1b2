"""Communication volume as formulas in the mesh sizes: equal to the bytes that the schedule moves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.codegen.fuse import SIMPLIFICATIONS
from meshgen.compilation import Compilation
from meshgen.compiled.executable import Executable
from meshgen.errors import ShardingError
from meshgen.ir.graph import Module
from meshgen.ir.symbols import Dim
from meshgen.mesh import Mesh, make_mesh
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing
from meshgen.sharding.analyze import analyze, volume_of
from meshgen.sharding.local_volume import local_volume
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.sizes.program import with_shapes
from meshgen.testing.random_graphs import random_program, random_program_on_two_meshes
from tests.acceptance.cases import small
from tests.ccl.formula_text import formula_value
from tests.plans import plan_of
from tests.programs import mlp

ROOT = Path(__file__).resolve().parents[2]
PLANS = [
    "argmax_sharded", "conv_halo", "heat_roll", "maxpool_halo", "moe_ep_nohint", "uneven_slice", "attn_fused_qkv_tp",
    "mlp_train_zero3", "xent_vocab_onehot", "reshard_swap_2d", "reshard_axis_replace", "mlp_2d_ws", "block_dp_tp",
]  # fmt: skip


def planned(text: str) -> Module:
    return optimize(materialize(propagate(parse_text(text))))


PROGRAMS = {
    "mlp": mlp(),
    "gathered": mlp(w1=("x", "y"), w2=("y", "x")),
    "moved": mlp(x=("y", ""), y=("", "x")),
    "scattered": mlp(y=("x", "y")),
    "uneven": mlp(w1=("", "y"), w2=("y", "")).replace("12", "13").replace("16", "10"),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 4), (4, 1), (5, 8)])
def test_formulas_equal_ring_bytes_on_other_meshes(name: str, sizes: tuple[int, int]) -> None:
    module = planned(PROGRAMS[name])
    mesh = make_mesh({"x": sizes[0], "y": sizes[1]})
    analysis = analyze(module)
    other_analysis = analyze(replace(module, mesh=mesh))  # the same program, analyzed on another mesh
    assert len(analysis.collectives) == len(other_analysis.collectives) > 0
    for record, other in zip(analysis.collectives, other_analysis.collectives, strict=True):
        assert record.formula.at(mesh) == other.ring_bytes == math.ceil(formula_value(str(record.formula), mesh))
    assert analysis.formula.at(mesh) == other_analysis.ring_bytes
    assert sum(f.at(mesh) for f in analysis.formulas_by_kind().values()) == other_analysis.ring_bytes


# Resharding the weights once would move more bytes than reducing the state in every iteration.
LOOP = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<2x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %n: tensor<i32>) -> tensor<2x64xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<2x64xf32>
    cond {
      %p = stablehlo.compare LT, %i, %LAST : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %k : tensor<i32>
      %d = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %z = stablehlo.tanh %d : tensor<2x64xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<2x64xf32>
    }
  return %0#1 : tensor<2x64xf32>
}
"""


def test_formula_multiplies_by_trip_count() -> None:
    analysis = analyze(planned(LOOP.replace("%LAST", "%three")))
    assert analysis.formula.at(analysis.mesh) == analysis.ring_bytes > 0
    assert any(record.times == 3 for record in analysis.collectives)


def test_formula_contains_symbol_for_each_unknown_axis_size() -> None:
    text = GRID
    analysis = analyze(planned(text))
    assert str(analysis.formula) == "2*(n_0-1)/n_0 * ceil(8/n_1) * 64"
    assert analysis.formula_record()["by_kind"] == {"all_reduce": str(analysis.formula)}


GRID = """
shard.grid @g(shape = ?x2)
func.func @f(%x: tensor<8x12xf32>, %w: tensor<12x16xf32>) -> tensor<8x16xf32> {
  %s = shard.sharding @g split_axes = [[1], [0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x12xf32>
  %t = shard.sharding @g split_axes = [[0], []] : !shard.sharding
  %ws = shard.shard %w to %t : tensor<12x16xf32>
  %a = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x16xf32>) -> tensor<8x16xf32>
  %b = stablehlo.tanh %a : tensor<8x16xf32>
  %r = shard.sharding @g split_axes = [[1], []] : !shard.sharding
  %c = shard.shard %b to %r : tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
"""


TWO_OPEN = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<?x?xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<?x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
    -> (tensor<?x?xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<?xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %0 = stablehlo.concatenate %a, %a, dim = 1 : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<?x?xf32>
  %2 = stablehlo.reshape %a : (tensor<?x?xf32>) -> tensor<?xf32>
  %3 = sdy.sharding_constraint %2 <@mesh, [{"x"}]> : tensor<?xf32>
  %4 = stablehlo.dot_general %b, %b, contracting_dims = [0] x [0] : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<8x8xf32>
  return %1, %3, %4 : tensor<?x?xf32>, tensor<?xf32>, tensor<8x8xf32>
}
"""


def open_plan(shapes: dict[str, tuple[int, ...]], text: str = TWO_OPEN) -> Module:
    return optimize(materialize(propagate(with_shapes(parse_text(text), shapes))))


def test_formula_with_open_sizes_predicts_other_plans() -> None:
    """Check a program with open sizes. The formulas of its plan for one size predict the bytes of plans for other
    sizes.
    """
    analysis = analyze(open_plan({"a": (64, 32), "b": (32, 8)}))
    assert analysis.sizes == {"a_0": 64, "a_1": 32, "b_0": 32}
    assert (
        analysis.formula.at(analysis.mesh) == analysis.formula.at(analysis.mesh, analysis.sizes) == analysis.ring_bytes
    )
    assert [str(record.formula) for record in analysis.collectives] == [
        "(n_x-1) * a_1 * ceil(a_0/n_x) * 8", "(n_x-1) * ceil(a_0*a_1/n_x) * 4", "2*(n_y-1)/n_y * 256",
    ]  # fmt: skip
    for rows, columns in ((48, 32), (62, 30), (128, 44)):
        other_analysis = analyze(open_plan({"a": (rows, columns), "b": (columns, 8)}))
        sizes = {"a_0": rows, "a_1": columns, "b_0": columns}
        assert [r.kind for r in other_analysis.collectives] == [r.kind for r in analysis.collectives]
        assert [r.formula.at(analysis.mesh, sizes) for r in analysis.collectives] == [
            r.ring_bytes for r in other_analysis.collectives
        ]


def test_formula_names_unknown_trip_count() -> None:
    analysis = analyze(planned(LOOP.replace("%LAST", "%n")))
    inner = [record for record in analysis.collectives if isinstance(record.times, Dim)]
    assert inner and analysis.sizes == {"trips_7": 1} and "trips_7 * " in str(analysis.formula)
    once = analysis.formula.at(analysis.mesh, {"trips_7": 1})
    assert (
        analysis.formula.at(analysis.mesh, {"trips_7": 5}) - once == 4 * sum(record.ring_bytes for record in inner) > 0
    )


def test_explain_prints_formulas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mlp.mlir"
    file.write_text(mlp())
    assert main(["explain", "-v", str(file), "--target", "cpu", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["formula"]["by_kind"]["all_reduce"] == document["formula"]["total"]
    assert formula_value(document["formula"]["total"], make_mesh(document["mesh"])) == document["ring_bytes"]
    assert main(["explain", "-v", str(file), "--target", "cpu"]) == 0
    assert document["formula"]["total"] in capsys.readouterr().out


GENERATED = range(40)


def volumes() -> Iterator[tuple[str, Executable]]:
    """Yield a name and a planned program per mesh: programs from files, random ones, and random ones on two meshes."""
    files = [*sorted((ROOT / "examples").glob("*.mlir")), *(p for p in map(small, PLANS) if p.exists())]
    for path in files:
        yield from ((path.name, part) for part in plan_of(path).parts)
    for seed in GENERATED:
        random_module = random_program_on_two_meshes if seed % 4 == 3 else random_program
        yield from ((str(seed), part) for part in api.plan_module(random_module(seed), Options("cpu"), Timing()).parts)


def test_formulas_equal_bytes_of_schedule_and_of_other_meshes() -> None:
    """Check that formulas predict the bytes on the planned mesh and on other meshes.

    The formulas include rows, candidates and halos that partition adds depending on the mesh. On another mesh,
    partition may produce a different program, whose formula differs (an axis with one device shards nothing). The test
    skips the comparison for such a mesh.
    """
    programs = compared = 0
    for name, part in volumes():
        volume = part.volume
        assert volume is not None
        assert volume.counts == part.comms.counts, name
        assert volume.formula.at(part.mesh) == volume.ring_bytes == part.comms.ring_bytes, name
        programs += bool(volume.ring_bytes)
        entered = part.stages.get("optimize")
        # A program with manual computations is only valid on one mesh.
        is_for_one_mesh = entered is None or any(node.op == "manual" for node in entered.graph.nodes)
        for mesh in () if is_for_one_mesh or not volume.collectives else other_meshes(part.mesh):
            stages = {"optimize": replace(entered, mesh=mesh)} if entered else {}
            try:
                stages["partition"] = optimize_local(partition(stages["optimize"]))
            except ShardingError:  # Partition rejects the planned shardings on this mesh.
                continue
            other_volume = local_volume(stages)
            assert other_volume is not None
            if [r.formula for r in other_volume.collectives] == [r.formula for r in volume.collectives]:
                compared += 1
                assert volume.formula.at(mesh) == volume_of(simplified(stages["partition"])).ring_bytes, (name, mesh)
    assert programs >= 25 and compared >= 40, (programs, compared)


def simplified(module: Module) -> Module:
    return Compilation().apply(module, SIMPLIFICATIONS)


def other_meshes(mesh: Mesh) -> Iterator[Mesh]:
    yield mesh.with_sizes(dict.fromkeys(mesh.names, 3))
    yield from (mesh.with_sizes({mesh.names[-1]: count}) for count in (2, 5))
