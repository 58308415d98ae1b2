"""Which chains run in chunks: what pays by the cost model, within the memory, and what is said of the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.codegen import planner
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.scheduling.schedule import sequential_bytes
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import UsageError
from meshgen.ir.graph import Module, Node
from meshgen.mesh import Axis
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.reports.overlap import overlap_records, overlap_table
from meshgen.sharding.chunks import estimate
from meshgen.sharding.chunks import search as searching
from meshgen.testing.oracle import check
from meshgen.testing.random_programs import options_of
from meshgen.testing.random_programs import program_of as random_program_of
from tests.cost_models import use
from tests.sharding.chunks.chunk_programs import block, chain, local
from tests.trials import trials

LARGE = block(8192, 4096, 4096, layers=2, sums=True)  # an all-reduce of 128 MiB takes longer than a layer
SMALL = block(64, 64, 64)
SUM = """sdy.mesh @mesh = <["x"=8]>
func.func @main(%x: tensor<4096x8192xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %w: tensor<8192x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x8192xf32>, tensor<8192x4096xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}
"""


def _reductions(executable: api.Executable) -> int:
    return executable.comms.count("all_reduce")


def test_large_reductions_run_in_chunks_within_the_memory_and_a_shorter_step() -> None:
    whole, found = api.plan(LARGE, skip=["chunks"]), api.plan(LARGE)
    assert _reductions(found) > _reductions(whole) == 2
    assert found.plan.step_seconds < whole.plan.step_seconds * (1 - DEFAULT.chunks.gain)
    assert found.plan.exposed_seconds < whole.plan.exposed_seconds / 2
    assert found.plan.arena_bytes <= sequential_bytes(whole.fused, "cuda:sm_90") == found.fused.memory_cap


def test_the_plan_is_the_same_each_time_and_after_a_round_trip_through_text() -> None:
    first, again = api.plan(LARGE), api.plan(LARGE)
    assert (first.plan.items, first.plan.buffers) == (again.plan.items, again.plan.buffers)
    entered = api.plan(print_text(first.stages["partition"]))
    launches = [[(item.label, item.start, item.outputs) for item in each.plan.items] for each in (first, entered)]
    assert launches[0] == launches[1]
    assert entered.overlap == first.overlap


def test_small_messages_stay_whole_and_the_report_says_why() -> None:
    found = api.plan(SMALL)
    assert found.fused.chunks == ()
    (decision,) = found.overlap
    assert not decision.is_applied
    assert decision.what == "all_reduce over tp of f32[64,64]"
    assert decision.exposed_seconds == pytest.approx(found.plan.exposed_seconds)
    assert decision.text.endswith("% of the step, before their costs")


def test_what_is_applied_is_in_the_table_the_records_and_the_reasons() -> None:
    found = api.plan(LARGE)
    (record,) = (each for each in overlap_records(found) if each["is_applied"])
    assert record["text"].startswith("in ") and "% shorter" in record["text"]
    assert "in chunks" in str(overlap_table(found))
    assert sum("4 chunks along dim 0" in row.why for row in found.comms) == 4
    assert overlap_table(api.plan(LARGE, skip=["chunks"])) is None


def test_less_memory_than_chunks_need_leaves_the_collectives_whole() -> None:
    """With no byte to spare beyond what is in place and made, every way that needs one more is refused."""
    whole = api.plan(LARGE, skip=["chunks"])
    least = whole.plan.arena_bytes
    found = api.plan(LARGE, memory_limit=least)
    assert found.plan.arena_bytes <= least
    assert found.plan.step_seconds <= whole.plan.step_seconds


def test_the_switch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.mlir").write_text(LARGE)
    assert main(["explain", str(tmp_path / "p.mlir"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["overlap"][0]["is_applied"]
    assert main(["explain", str(tmp_path / "p.mlir"), "--json", "--skip", "chunks"]) == 0
    skipped = json.loads(capsys.readouterr().out)
    assert skipped["overlap"] == []
    assert skipped["step_seconds"] > document["step_seconds"]
    assert main(["explain", "-v", str(tmp_path / "p.mlir")]) == 0
    assert "Collectives that nothing hides" in capsys.readouterr().out
    assert main(["explain", str(tmp_path / "p.mlir"), "--skip", "everything"]) == 2
    with pytest.raises(UsageError, match=r"MG0001.*unknown pass 'all'"):
        api.plan(SMALL, skip=["all"])
    with pytest.raises(UsageError, match="must be a list of names"):
        api.plan(SMALL, skip="chunks")


@pytest.fixture
def quick_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device on which launches take no time and products as long as their arithmetic: chunks of few rows pay."""
    device = replace(device_of("cuda:sm_90"), launch_seconds=0.0, peaks={}, vector_flops=1e9, bandwidth=1e15)
    monkeypatch.setattr("meshgen.codegen.roofline.kernel_time.device_of", lambda target: device)
    monkeypatch.setattr("meshgen.codegen.scheduling.costs.device_of", lambda target: device)
    monkeypatch.setattr("meshgen.sharding.chunks.estimate.device_of", lambda target: device)
    monkeypatch.setattr(
        "meshgen.codegen.roofline.kernel_time.product_seconds", lambda product, device: product.flops / 7.5e8
    )


def _on_slow_links(program: Module) -> Module:
    axes = tuple(Axis(axis.name, axis.size, bandwidth=1e9, latency=0.0) for axis in program.mesh.axes)
    return replace(program, mesh=replace(program.mesh, axes=axes))


def _fused(options: Options, module: Module) -> Module:
    return run_stages(module, options, Timing(), "fuse")["fuse"]


@pytest.mark.parametrize("group", trials(1))
@pytest.mark.usefixtures("quick_launches")
def test_random_programs_that_are_put_in_chunks_keep_law_one_and_are_shorter(group: int) -> None:
    """Each group draws 40 programs, and further ones until chunks are applied in two."""
    applied, first = 0, group * 600 + 440
    for seed in range(first, first + 600):
        if seed >= first + 40 and applied >= 2:
            break
        program = random_program_of(seed)
        if len(program.meshes) > 1 or not program.mesh.is_static:
            continue
        program = _on_slow_links(program)
        options = replace(options_of(seed), memory_limit=1 << 30)
        after = api.plan_module(program, options, Timing())
        if not any(each.is_applied for each in after.overlap):
            continue
        applied += 1
        before = api.plan_module(program, replace(options, skip=("chunks",)), Timing())
        assert after.plan.step_seconds <= before.plan.step_seconds * (1 - DEFAULT.chunks.gain), f"seed {seed}"
        result = check(program, pipeline=partial(_fused, options))
        assert result.ok, f"seed {seed}: {result.faults}"
    assert applied >= 2


def test_what_cannot_pay_is_neither_estimated_nor_fused_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is exposed is less than chunks must gain: one program is fused and scheduled, and the report has the bound."""
    made: list[str] = []
    for name in ("fuse", "Steps"):
        own = getattr(planner, name)
        monkeypatch.setattr(planner, name, lambda *given, name=name, own=own: made.append(name) or own(*given))
    use(monkeypatch, {"chunks.gain": 1.0}, searching)
    monkeypatch.setattr(searching, "Estimates", None)
    found = api.plan(LARGE)
    assert made == ["fuse", "Steps"]
    assert all(each.text.startswith("chunks could hide at most") for each in found.overlap)


def test_a_program_without_collectives_is_not_scheduled_for_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Module] = []
    monkeypatch.setattr(
        planner, "fuse", lambda module, manager, own=planner.fuse: made.append(module) or own(module, manager)
    )
    whole = SUM.replace('{"x"}', "{}")
    for text in (whole, SUM):
        run_stages(parse_text(text), Options("cuda:sm_90"), Timing(), "partition")
        assert bool(made) == (text is SUM)


def test_a_cut_that_makes_the_step_longer_is_not_tried_in_other_numbers_of_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, cuts = searching.in_chunks, list[Hashable]()
    monkeypatch.setattr(searching, "in_chunks", lambda graph, chain: cuts.append(chain.cut) or own(graph, chain))
    assert _reductions(api.plan(SUM)) > 1
    assert len(cuts) > len(set(cuts)) > 0  # several numbers of chunks are tried where the first pays
    cuts.clear()
    monkeypatch.setattr(planner.Steps, "least_seconds", math.inf)
    assert _reductions(api.plan(SUM)) == 1
    assert len(cuts) == len(set(cuts)) > 0


def test_what_was_compared_is_not_scheduled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that is chosen has further attributes, and keeps its kernels and its schedule."""
    modules: list[Module] = []
    monkeypatch.setattr(
        planner, "Steps", lambda module, costs, own=planner.Steps: modules.append(module) or own(module, costs)
    )
    found = api.plan(LARGE)
    graphs = [module.graph for module in modules]
    assert found.fused.graph in graphs and len({id(graph) for graph in graphs}) == len(graphs)


def test_a_chain_is_estimated_in_stretches_between_what_needs_all_rows() -> None:
    """Columns of the residual flow from layer to layer, but each layer's product needs all of them before; rows need no others."""
    module = local(block(64, 64, 64, layers=2))
    rows, columns = (estimate.stretches(module.graph, chain(module, dim, 2)) for dim in (0, 1))
    assert [len(collectives_in(part)) for part in rows] == [2]
    assert [len(collectives_in(part)) for part in columns] == [1, 1]
    assert {node for part in rows for node in part} == set(chain(module, 0, 2).loops)


def collectives_in(part: list[Node]) -> list[Node]:
    return [node for node in part if node.op == "all_reduce"]
