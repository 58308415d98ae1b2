"""The figures of `--json` equal the work that each simulated rank executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.api import plan, plan_module
from meshgen.codegen.passes import loop_unroll
from meshgen.ir.op_names import BRANCHES, REPEATED
from meshgen.mesh import Mesh
from meshgen.ops.flops import graph_flops
from meshgen.pipeline import Options, Timing
from meshgen.reports.comms import comms_of
from meshgen.reports.cost import launch_bytes
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.recording import measured
from meshgen.testing.random_graphs import random_arguments
from meshgen.testing.random_programs import program_of
from tests.cost_models import use
from tests.trials import trials

# Seeds of random programs whose schedules have loops with known trip counts, loops with unknown trip counts, and
# branches.
WITH_LOOPS = (37, 57, 75, 76)
OF_UNKNOWN_LENGTH = (19, 79, 295)
WITH_BRANCHES = (28, 37, 76, 85, 112, 144, 181)


def items_of(plan: Schedule) -> Iterator[tuple[Item, Schedule]]:
    """Yield the items of a step and of its regions, each with its schedule."""
    for item in plan.items:
        yield item, plan
        for region in item.regions:
            yield from items_of(region)


def runs_per_rank(module: mg.LoadedModule, args: Any) -> dict[int, Counter[int]]:
    """Return per rank how often each item ran, keyed by the item's id."""
    with measured() as spans:
        module.run(args)
    runs_by_rank: dict[int, Counter[int]] = {rank: Counter() for rank in range(module.mesh.size)}
    for span in spans:
        runs_by_rank[span.rank][id(span.item)] += 1
    return runs_by_rank


def figures_of(plan: Schedule, mesh: Mesh, runs: Counter[int]) -> dict[str, Any]:
    """Return the work of one rank under the names that `--json` uses."""
    counts, flops, ring, traffic, kernels = Counter[str](), 0.0, 0, 0, 0
    for item, schedule in items_of(plan):
        run_count = runs[id(item)]
        if item.is_collective:
            (row,) = comms_of(Schedule((item,), schedule.buffers, 0, (), ()), mesh)
            counts[row.kind] += run_count
            ring += schedule.collective(item, mesh).ring_bytes * run_count
        elif item.kernel:
            flops += graph_flops(schedule.kernels[item.kernel]) * run_count
            traffic += launch_bytes(item, schedule) * run_count
            kernels += run_count
    executed_counts = {kind: count for kind, count in sorted(counts.items()) if count}
    return {
        "counts": executed_counts,
        "ring_bytes": ring,
        "flops_per_device": flops,
        "kernels": kernels,
        "device_bytes": traffic,
    }


def compiled(seed: int, folder: Path) -> tuple[mg.Executable, mg.LoadedModule]:
    executable = plan_module(program_of(seed), Options("cpu"), Timing())
    executable.save(folder / f"{seed}.mgx")
    return executable, mg.load(folder / f"{seed}.mgx")


def figures_equal_run(executable: mg.Executable, loaded: mg.LoadedModule, draw: int) -> bool:
    """Whether the figures equal the work of every rank in one run.

    The random arguments of the run, drawn from seed `draw`, decide which branches are taken.
    """
    runs_by_rank = runs_per_rank(loaded, random_arguments(next(iter(executable.stages.values())), draw))
    rank_figures = [figures_of(loaded.schedule, loaded.mesh, runs) for runs in runs_by_rank.values()]
    record = executable.record()
    return all(figures == {name: record[name] for name in figures} for figures in rank_figures)


@pytest.mark.parametrize("seed", [seed for seed in trials(30) if seed % 11 != 7])
def test_figures_equal_work_executed_by_every_rank(seed: int, tmp_path: Path) -> None:
    """Check that a run with some of the random arguments does exactly the work that the figures state.

    The figures count the longest branches, and one iteration of a loop with an unknown trip count.
    """
    executable, loaded = compiled(seed, tmp_path)
    ops = {item.op for item, _ in items_of(loaded.schedule)}
    if "while" in ops:
        pytest.skip("the length of a loop depends on the arguments")
    choices = 8 if ops & set(BRANCHES) else 1
    assert any(figures_equal_run(executable, loaded, draw) for draw in range(choices))


@pytest.mark.parametrize("seed", WITH_LOOPS)
def test_figures_count_every_iteration_of_rolled_loops(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"fusion.unrolled_messages": 0, "fusion.unrolled_nodes": 0}, loop_unroll)
    executable, loaded = compiled(seed, tmp_path)
    assert [item for item, _ in items_of(loaded.schedule) if item.op in REPEATED]
    assert any(figures_equal_run(executable, loaded, draw) for draw in range(8))


@pytest.mark.parametrize("seed", OF_UNKNOWN_LENGTH)
def test_loop_condition_runs_once_more_than_body(seed: int, tmp_path: Path) -> None:
    executable, loaded = compiled(seed, tmp_path)
    runs = runs_per_rank(loaded, random_arguments(executable.stages["import"], seed))[0]
    (loop,) = (item for item, _ in items_of(loaded.schedule) if item.op == "while")
    condition, body = (runs[id(region.items[0])] for region in loop.regions)
    assert condition == body + 1
    assert [times for _, times in loop.runs] == [2, 1], "one trip is counted"


@pytest.mark.parametrize("seed", WITH_BRANCHES)
def test_figures_count_longest_branch(seed: int, tmp_path: Path) -> None:
    executable, loaded = compiled(seed, tmp_path)
    branches = [item for item, _ in items_of(loaded.schedule) if item.op in BRANCHES]
    assert branches
    for item in branches:
        longest = max(region.step_seconds for region in item.regions)
        assert [region.step_seconds for region, times in item.runs if times] == [longest]
    assert any(figures_equal_run(executable, loaded, draw) for draw in range(12))


def test_branch_flops_are_those_of_longest_branch() -> None:
    branch_dot = "%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"
    text = f"""sdy.mesh @mesh = <["x"=2]>
    func.func @main(%x: tensor<64x64xf32>, %which: tensor<i32>) -> tensor<64x64xf32> {{
      %r = "stablehlo.case"(%which) ({{
        {branch_dot}
        stablehlo.return %y : tensor<64x64xf32>
      }}, {{
        {branch_dot}
        %z = stablehlo.dot_general %y, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
        stablehlo.return %z : tensor<64x64xf32>
      }}) : (tensor<i32>) -> tensor<64x64xf32>
      return %r : tensor<64x64xf32>
    }}"""
    cost = plan(text, target="cpu").cost
    assert cost.flops == 2 * 2 * 64**3 and cost.kernels == 2
    assert cost.redundant_flops == pytest.approx(cost.flops / 2)


@pytest.mark.parametrize(
    ("specs", "flops_share", "redundant_share"),
    [({}, 1, 7 / 8), ({"x": mg.P("dp")}, 1 / 8, 0), ({"w": mg.P(None, None, "dp")}, 1 / 8, 0)],
)
def test_redundant_flops_of_ragged_dot_count_each_row_once(
    specs: dict[str, Any], flops_share: float, redundant_share: float
) -> None:
    jax = pytest.importorskip("jax")
    rows, k, n, groups = 512, 64, 128, 16
    args = [mg.spec(f"bf16[{rows},{k}]"), mg.spec(f"bf16[{groups},{k},{n}]"), mg.spec(f"i32[{groups}]")]
    ragged = jax.jit(lambda x, w, sizes: jax.lax.ragged_dot(x, w, sizes))
    cost = plan(ragged, {"dp": 8}, args=args, in_specs=specs, target="cpu").cost
    total_flops = 2.0 * rows * k * n
    assert cost.flops == pytest.approx(total_flops * flops_share, rel=0.01)
    assert cost.redundant_flops == pytest.approx(
        total_flops * redundant_share, rel=0.01, abs=8 * groups
    )  # 8 FLOPs per group: `sizes` is computed from running sums


def test_redundant_flops_do_not_exceed_flops() -> None:
    """Check programs whose kernels skip unused elements, and thereby most of the redundant work."""
    for seed in (202, 210, 241):
        cost = plan_module(program_of(seed), Options("cpu"), Timing()).cost
        assert cost.redundant_flops is not None and cost.redundant_flops <= cost.flops
