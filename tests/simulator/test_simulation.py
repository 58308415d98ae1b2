"""Tests of the simulated step of all ranks: its time on one host, and the effect of hosts, slow devices and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import UsageError
from meshgen.machine.profiles import MACHINES, Machine
from meshgen.runtime.validation.multi_mesh_checker import check_parts
from meshgen.simulator.network import packing_seconds
from meshgen.simulator.simulation import Scheduled, Simulation, simulate
from meshgen.simulator.timeline import Conditions, Timeline
from tests.programs import mlp
from tests.sharding.multi_mesh.meshes_programs import CPU, stages_of, traced

IDEAL = replace(MACHINES["dgx-h200"], overlap_slowdown=0.0)
NVLINK, PORT = IDEAL.links
WIDE = """module @wide {{
  sdy.mesh @mesh = <["dp"={dp}, "tp"={tp}]>
  func.func public @main(%x: tensor<4096x1024xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"dp"}}, {{}}]>}},
      %w: tensor<1024x4096xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"tp"}}]>}}) -> (tensor<1024x4096xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"tp"}}]>}}) {{
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x1024xf32>, tensor<1024x4096xf32>) -> tensor<4096x4096xf32>
    %g = stablehlo.dot_general %x, %h, contracting_dims = [0] x [0] : (tensor<4096x1024xf32>, tensor<4096x4096xf32>) -> tensor<1024x4096xf32>
    return %g : tensor<1024x4096xf32>
  }}
}}
"""
LOOP = """module @loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %n: tensor<i32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %r = stablehlo.while(%c = %one) : tensor<8xf32>
    cond {
      %s = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %go = stablehlo.compare LT, %s, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %t = stablehlo.tanh %x : tensor<8x16xf32>
      %s = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
      %d = stablehlo.add %s, %c : tensor<8xf32>
      stablehlo.return %d : tensor<8xf32>
    }
    return %r : tensor<8xf32>
  }
}
"""


def part(text: str) -> Scheduled:
    """Compile without chunks, since the expected times are those of undivided collectives."""
    executable = mg.compile(text, target="cpu", skip=["chunks"])
    return Scheduled(executable.mesh, executable.plan)


def step(program: Scheduled, machine: Machine = IDEAL, conditions: Conditions | None = None) -> Simulation:
    return simulate([program], machine, conditions)


def collective(simulation: Simulation, index: int = 0) -> float:
    """Return the seconds of a collective on the first rank."""
    span = [span for span in simulation.parts[0].spans if span.item.is_collective][index]
    return float(span.end[0] - span.start[0])


@pytest.mark.parametrize("text", [mlp(), mlp(y=("", "")), WIDE.format(dp=4, tp=2)], ids=["mlp", "whole", "wide"])
def test_simulated_step_on_one_host_equals_the_schedule(text: str) -> None:
    program = part(text)
    simulation = step(program)
    assert simulation.step_seconds == pytest.approx(program.schedule.step_seconds, rel=1e-9)
    assert np.ptp(simulation.parts[0].end) == 0
    assert simulation.parts[0].exposed[0] == pytest.approx(program.schedule.exposed_seconds, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("dp", "tp"), [(8, 2), (4, 8), (2, 16)])
def test_all_reduce_over_hosts_shares_their_ports(dp: int, tp: int) -> None:
    """Check an all_reduce over dp. The ranks of a group are `tp` apart, so `8 / tp` ranks of each host are in one
    group.
    """
    program = part(WIDE.format(dp=dp, tp=tp))
    moved = 2 * (dp - 1) / dp * 1024 * 4096 // tp * 4
    in_host = max(8 // tp, 1)
    hosts = dp // in_host
    step_between = PORT.latency_seconds - NVLINK.latency_seconds
    ring = 2 * (hosts - 1) * (step_between + (in_host - 1) * 3.4e-6)
    ring += moved / min(NVLINK.bytes_per_second, in_host * PORT.bytes_per_second)
    across = moved * (hosts - 1) / hosts * dp / (dp - 1)  # bytes that a tree all-reduce sends between hosts
    tree = 2 * np.ceil(np.log2(hosts)) * step_between
    tree += max(moved / NVLINK.bytes_per_second, across / (in_host * PORT.bytes_per_second)) / 0.9
    best = NVLINK.latency_seconds + min(
        ring, tree
    )  # time of NCCL's Simple protocol; LL128 has shorter steps, but only 120 of 128 bytes are payload
    assert 0.7 * best < collective(step(program)) <= best


def test_all_to_all_uses_each_device_port() -> None:
    text = """sdy.mesh @mesh = <["x"=16]>
    func.func @main(%x: tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
      return %x : tensor<4096x4096xf32>
    }"""
    tile_bytes = 4096 * 4096 * 4 / 16
    expected = tile_bytes * 8 / 16 / PORT.bytes_per_second + PORT.latency_seconds + 14 * 0.3e-6
    program = part(text)
    (item,) = (item for item in program.schedule.items if item.is_collective)
    expected += packing_seconds(item, program.schedule, program.mesh)
    assert collective(step(program)) == pytest.approx(expected, rel=1e-6)


def test_slow_device_delays_only_its_group() -> None:
    program = part(WIDE.format(dp=4, tp=2))  # groups over dp: even and odd ranks
    ideal, slowed = step(program), step(program, conditions=Conditions(slow_devices={3: 2.0}))
    late = np.flatnonzero(slowed.parts[0].end > ideal.parts[0].end * (1 + 1e-9))
    assert late.tolist() == [1, 3, 5, 7]
    assert slowed.parts[0].computing[3] == pytest.approx(2 * ideal.parts[0].computing[3])
    linked = step(program, conditions=Conditions(slow_links={0: 3.0}))
    assert np.flatnonzero(linked.parts[0].end > ideal.parts[0].end * (1 + 1e-9)).tolist() == [0, 2, 4, 6]
    assert collective(linked) == pytest.approx(3 * collective(ideal))


def test_jitter_only_adds_time_and_is_reproducible() -> None:
    program = part(WIDE.format(dp=4, tp=2))
    ends = [step(program, conditions=Conditions(jitter=0.1, seed=seed)).parts[0].end for seed in (1, 1, 2)]
    assert np.array_equal(ends[0], ends[1]) and not np.array_equal(ends[0], ends[2])
    assert ends[0].min() > step(program).step_seconds


HIDDEN = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<4096x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %v: tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
    %w: tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4096x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %h = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4096x1024xf32>, tensor<1024x1024xf32>) -> tensor<4096x1024xf32>
  %g = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4096x1024xf32>, tensor<1024x1024xf32>) -> tensor<4096x1024xf32>
  return %g : tensor<4096x1024xf32>
}
"""


def test_kernels_that_overlap_collectives_take_longer() -> None:
    program = part(HIDDEN)
    hidden = program.schedule.hidden_seconds
    assert hidden > 0
    slower = step(program, replace(IDEAL, overlap_slowdown=0.5))
    assert slower.step_seconds == pytest.approx(step(program).step_seconds + 0.5 / 1.5 * hidden, rel=1e-6)


def loop(trips: int, conditions: Conditions | None = None) -> Simulation:
    """Simulate a program with collectives in a loop, as if the loop had the trip count `trips`."""
    program = part(LOOP)
    items = [
        replace(item, attrs=dict(item.attrs) | {"trips": trips}) if item.op == "while" else item
        for item in program.schedule.items
    ]
    return step(replace(program, schedule=replace(program.schedule, items=tuple(items))), conditions=conditions)


def test_loop_condition_runs_once_more_than_its_body() -> None:
    (item,) = (item for item in part(LOOP).schedule.items if item.op == "while")
    condition = item.regions[0].step_seconds
    assert loop(6).step_seconds == pytest.approx(loop(5).step_seconds + item.seconds - condition, rel=1e-9)
    (span,) = (span for span in loop(1).parts[0].spans if span.item.op == "while")
    assert span.end[0] - span.start[0] == pytest.approx(item.seconds, rel=1e-9)


@pytest.mark.parametrize("conditions", [None, Conditions(slow_devices={1: 1.5}), Conditions(slow_links={2: 2.0})])
def test_loop_iterations_in_steady_state_are_extrapolated(
    monkeypatch: pytest.MonkeyPatch, conditions: Conditions | None
) -> None:
    quick = loop(200, conditions)
    monkeypatch.setattr(Timeline, "_is_steady", lambda *_: False)
    played = loop(200, conditions)
    assert len(quick.parts[0].spans) < len(played.parts[0].spans) / 10
    assert np.allclose(quick.parts[0].end, played.parts[0].end, rtol=1e-9)
    assert np.allclose(quick.parts[0].computing, played.parts[0].computing, rtol=1e-9)


def test_meshes_synchronize_at_transfers() -> None:
    def program(x: Any) -> Any:
        h = mg.annotate(mg.tanh(x), mg.P(mesh="a"))
        g = mg.annotate(mg.exp(h), mg.P(mesh="b"))
        return mg.annotate(g + 1.0, mg.P(mesh="a"))

    fused = stages_of(traced(program, types=["f32[6]"], in_specs=None))["fuse"]
    from meshgen.pipeline import context_of, make_schedule

    parts = [Scheduled(mesh_part.mesh, make_schedule(mesh_part, context_of(CPU))) for mesh_part in fused.parts]
    expected = check_parts(
        [mesh_part.schedule for mesh_part in parts], [mesh_part.mesh for mesh_part in parts]
    ).step_seconds
    ideal = simulate(parts, IDEAL)
    assert ideal.step_seconds == pytest.approx(expected, rel=1e-9)
    assert [mesh_part.watched for mesh_part in ideal.parts] == [(0,), (0,)]
    slow = simulate(parts, IDEAL, Conditions(slow_devices={0: 3.0}))
    assert slow.parts[1].end.min() > ideal.parts[1].end.max(), "the second mesh waits for the first"


def test_simulate_api_accepts_compiled_and_loaded_modules(tmp_path: Path) -> None:
    executable = mg.compile(mlp(), target="cpu")
    executable.save(tmp_path / "mlp.mgx")
    conditions = Conditions(slow_devices={3: 1.5})
    compiled, loaded = (
        mg.simulate(program, "dgx-a100", conditions, watch=[3])
        for program in (executable, mg.load(tmp_path / "mlp.mgx"))
    )
    assert compiled.step_seconds == loaded.step_seconds > mg.simulate(executable, "dgx-a100").step_seconds
    assert compiled.parts[0].watched == (3,)


def test_simulation_events_do_not_grow_with_ranks() -> None:
    few, many = (part(mlp().replace('"x"=2, "y"=2', f'"x"={x}, "y"=2')) for x in (4, 8))
    many = replace(many, mesh=many.mesh.with_sizes({"x": 8192}))
    simulation = step(many)
    assert simulation.parts[0].end.shape == (16384,) and len(simulation.parts[0].spans) == len(step(few).parts[0].spans)


@pytest.mark.parametrize("conditions", [Conditions(slow_devices={4: 2.0}), Conditions(slow_links={-1: 2.0})])
def test_unknown_ranks_are_rejected(conditions: Conditions) -> None:
    with pytest.raises(UsageError, match=r"MG0001.*the ranks are 0 to 3") as error:
        step(part(mlp()), conditions=conditions)
    assert error.value.exit_code == 2
    for malformed in (Conditions(jitter=-1), Conditions(slow_links={0: 0.0}), Conditions(slow_devices={"a": 2.0})):  # type: ignore[dict-item]
        with pytest.raises(UsageError, match="MG0001"):
            step(part(mlp()), conditions=malformed)
    for ranks in (["a"], 3, [True]):
        with pytest.raises(UsageError, match="watch must list ranks"):
            simulate([part(mlp())], IDEAL, watch=ranks)  # type: ignore[arg-type]
    watch: Sequence[int] = [9]
    with pytest.raises(UsageError, match="unknown rank 9"):
        simulate([part(mlp())], IDEAL, watch=watch)
