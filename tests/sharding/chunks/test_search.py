"""The search for chains to run in chunks: profitable by the cost model, within the memory limit, with reported
decisions.
"""

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

LARGE = block(8192, 4096, 4096, layers=2, sums=True)  # An all-reduce of 128 MiB takes longer than a layer.
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


def test_large_reductions_run_in_chunks_and_shorten_step() -> None:
    unchunked, chunked = api.plan(LARGE, skip=["chunks"]), api.plan(LARGE)
    assert _reductions(chunked) > _reductions(unchunked) == 2
    assert chunked.plan.step_seconds < unchunked.plan.step_seconds * (1 - DEFAULT.chunks.gain)
    assert chunked.plan.exposed_seconds < unchunked.plan.exposed_seconds / 2
    assert chunked.plan.arena_bytes <= sequential_bytes(unchunked.fused, "cuda:sm_90") == chunked.fused.memory_cap


def test_chunk_plan_is_deterministic_and_survives_text_round_trip() -> None:
    first, second = api.plan(LARGE), api.plan(LARGE)
    assert (first.plan.items, first.plan.buffers) == (second.plan.items, second.plan.buffers)
    entered = api.plan(print_text(first.stages["partition"]))
    launches = [
        [(item.label, item.start, item.outputs) for item in executable.plan.items] for executable in (first, entered)
    ]
    assert launches[0] == launches[1]
    assert entered.overlap == first.overlap


def test_small_messages_are_not_split_and_reason_is_reported() -> None:
    executable = api.plan(SMALL)
    assert executable.fused.chunks == ()
    (decision,) = executable.overlap
    assert not decision.is_applied
    assert decision.what == "all_reduce over tp of f32[64,64]"
    assert decision.exposed_seconds == pytest.approx(executable.plan.exposed_seconds)
    assert decision.text.endswith("% of the step, before their costs")


def test_applied_chunks_are_reported_in_table_records_and_reasons() -> None:
    executable = api.plan(LARGE)
    (record,) = (chunk_record for chunk_record in overlap_records(executable) if chunk_record["is_applied"])
    assert record["text"].startswith("in ") and "% shorter" in record["text"]
    assert "in chunks" in str(overlap_table(executable))
    assert sum("4 chunks along dim 0" in row.why for row in executable.comms) == 4
    assert overlap_table(api.plan(LARGE, skip=["chunks"])) is None


def test_memory_limit_prevents_chunks() -> None:
    """Check a memory limit equal to the arena size of the plan without chunks."""
    unchunked = api.plan(LARGE, skip=["chunks"])
    least = unchunked.plan.arena_bytes
    limited = api.plan(LARGE, memory_limit=least)
    assert limited.plan.arena_bytes <= least
    assert limited.plan.step_seconds <= unchunked.plan.step_seconds


def test_chunks_pass_can_be_skipped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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
    """A device with free launches and slow arithmetic, on which chunks of a few rows are profitable."""
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
def test_random_programs_with_chunks_are_correct_and_faster(group: int) -> None:
    """Check 40 random programs per group, and further programs until two of them use chunks."""
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
        if not any(decision.is_applied for decision in after.overlap):
            continue
        applied += 1
        before = api.plan_module(program, replace(options, skip=("chunks",)), Timing())
        assert after.plan.step_seconds <= before.plan.step_seconds * (1 - DEFAULT.chunks.gain), f"seed {seed}"
        result = check(program, pipeline=partial(_fused, options))
        assert result.ok, f"seed {seed}: {result.faults}"
    assert applied >= 2


def test_unprofitable_chunks_are_rejected_before_estimation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a required gain that exceeds the exposed time.

    Only one program is then fused and scheduled, and the report states the upper bound of the gain.
    """
    called_names: list[str] = []
    for name in ("fuse", "Steps"):
        original = getattr(planner, name)
        monkeypatch.setattr(
            planner,
            name,
            lambda *arguments, name=name, original=original: called_names.append(name) or original(*arguments),
        )
    use(monkeypatch, {"chunks.gain": 1.0}, searching)
    monkeypatch.setattr(searching, "Estimates", None)
    executable = api.plan(LARGE)
    assert called_names == ["fuse", "Steps"]
    assert all(decision.text.startswith("chunks could hide at most") for decision in executable.overlap)


def test_program_without_collectives_is_not_fused_for_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    fused_modules: list[Module] = []
    monkeypatch.setattr(
        planner,
        "fuse",
        lambda module, manager, original=planner.fuse: fused_modules.append(module) or original(module, manager),
    )
    replicated = SUM.replace('{"x"}', "{}")
    for text in (replicated, SUM):
        run_stages(parse_text(text), Options("cuda:sm_90"), Timing(), "partition")
        assert bool(fused_modules) == (text is SUM)


def test_unprofitable_cut_is_tried_with_one_chunk_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, cuts = searching.in_chunks, list[Hashable]()
    monkeypatch.setattr(searching, "in_chunks", lambda graph, chain: cuts.append(chain.cut) or original(graph, chain))
    assert _reductions(api.plan(SUM)) > 1
    # The search tries several chunk counts for the same ops if the first count is profitable.
    assert len(cuts) > len(set(cuts)) > 0
    cuts.clear()
    monkeypatch.setattr(planner.Steps, "least_seconds", math.inf)
    assert _reductions(api.plan(SUM)) == 1
    assert len(cuts) == len(set(cuts)) > 0


def test_candidate_programs_are_scheduled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the chosen program is not scheduled a second time, although attributes are added to its nodes."""
    modules: list[Module] = []
    monkeypatch.setattr(
        planner,
        "Steps",
        lambda module, costs, original=planner.Steps: modules.append(module) or original(module, costs),
    )
    executable = api.plan(LARGE)
    graphs = [module.graph for module in modules]
    assert executable.fused.graph in graphs and len({id(graph) for graph in graphs}) == len(graphs)


def test_chunked_chain_is_split_at_ops_that_read_all_columns() -> None:
    """Check residual layers. Each dot reads all columns of the residual, so chains in column chunks end before a dot.

    Chains in row chunks continue through the dot.
    """
    module = local(block(64, 64, 64, layers=2))
    rows, columns = (estimate.stretches(module.graph, chain(module, dim, 2)) for dim in (0, 1))
    assert [len(collectives_in(part)) for part in rows] == [2]
    assert [len(collectives_in(part)) for part in columns] == [1, 1]
    assert {node for part in rows for node in part} == set(chain(module, 0, 2).loops)


def collectives_in(part: list[Node]) -> list[Node]:
    return [node for node in part if node.op == "all_reduce"]
