"""Tests of schedules retimed for other machines: durations follow the machine, by the cost functions that plan for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.api import plan, plan_module
from meshgen.codegen.roofline.kernel_time import DEVICES
from meshgen.codegen.targets import predicted_machine
from meshgen.frontend.arguments import with_machine
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES
from meshgen.pipeline import Options, Timing
from meshgen.reports.page.kernels import roofline
from meshgen.simulator.retiming import retimed
from meshgen.testing.random_programs import program_of
from tests.programs import mlp
from tests.runtime.test_scans import layers
from tests.simulator.test_simulation import LOOP, WIDE

PROGRAMS = {"mlp": mlp(y=("", "")), "wide": WIDE.format(dp=4, tp=4), "loop": LOOP, "scan": layers()}
SEEDS = (1, 12, 14, 20)  # seeds of random programs with loops and branches


def product(x: Any, w: Any) -> Any:
    return x @ w


PRODUCT: dict[str, Any] = {"args": ["bf16[8192,8192]"] * 2, "in_specs": {"x": mg.P("dp")}}


@pytest.mark.parametrize("program", [*PROGRAMS, *SEEDS])
def test_retiming_for_the_same_machine_is_a_no_op(program: str | int) -> None:
    module = program_of(program) if isinstance(program, int) else mg.lower(PROGRAMS[program], stage="import")
    executable = plan_module(module, Options("cuda:sm_90"), Timing())
    assert retimed(executable.plan, executable.mesh, predicted_machine("cpu", None))[0] == executable.plan


@pytest.mark.parametrize("machine", MACHINES)
def test_simulated_gemm_time_equals_plan_for_the_machine(machine: str) -> None:
    """Check a program of one kernel without collectives. Its plan is equal for all machines; its time depends only on
    the GPU.
    """
    compiled = plan(product, {"dp": 8}, target="cpu", **PRODUCT)
    expected = plan(product, {"dp": 8}, machine=machine, **PRODUCT).cost.step_seconds
    assert mg.simulate(compiled, machine).step_seconds == pytest.approx(expected, rel=1e-9)


def test_simulated_time_scales_with_gpu_peak(tmp_path: Path) -> None:
    mg.compile(product, {"dp": 8}, target="cpu", **PRODUCT).save(tmp_path / "m.mgx")
    times = [
        mg.simulate(mg.load(tmp_path / "m.mgx"), name).step_seconds for name in ("dgx-a100", "dgx-h100", "dgx-b200")
    ]
    peaks = [DEVICES[str(MACHINES[name].device)].peaks["bf16"] for name in ("dgx-a100", "dgx-h100", "dgx-b200")]
    assert times[0] / times[1] == pytest.approx(peaks[1] / peaks[0], rel=0.05)
    assert times[1] / times[2] == pytest.approx(peaks[2] / peaks[1], rel=0.2)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", [*PROGRAMS, *SEEDS[1:3]])
def test_simulated_step_equals_explained_step_without_overlap(program: str | int, machine: str) -> None:
    module = program_of(program) if isinstance(program, int) else mg.lower(PROGRAMS[program], stage="import")
    profile = replace(MACHINES[machine], overlap_slowdown=0.0)
    executable = plan_module(with_machine(module, profile), Options("cpu"), Timing())
    assert mg.simulate(executable).step_seconds == pytest.approx(executable.cost.step_seconds, rel=1e-9)
    assert mg.simulate(executable, MACHINES[machine]).step_seconds >= executable.cost.step_seconds * (1 - 1e-9)


def test_axis_with_explicit_links_keeps_them_on_any_machine() -> None:
    executable = plan(mlp(), target="cpu")
    slow = replace(
        executable.mesh, axes=tuple(replace(axis, bandwidth=1e9, latency=1e-3) for axis in executable.mesh.axes)
    )
    schedule, _ = retimed(executable.plan, slow, predicted_machine("cpu", MACHINES["dgx-a100"]))
    assert [item.seconds > 1e-3 for item in schedule.items if item.is_collective] == [True]


@pytest.mark.parametrize(("target", "product_name"), [("cuda:sm_80", "A100"), ("cpu", "H200"), ("cuda:sm_100", "B200")])
def test_simulation_and_plan_use_the_same_default_machine(target: str, product_name: str) -> None:
    """Check sixteen ranks. The default machine has one host, while on other machines they would be two hosts."""
    executable = plan(WIDE.format(dp=8, tp=2), target=target, skip=["chunks"])
    quiet = mg.simulate(executable, replace(MACHINES[DEFAULT_MACHINE], overlap_slowdown=0.0))
    assert quiet.step_seconds == pytest.approx(executable.cost.step_seconds, rel=1e-9)
    assert mg.simulate(executable).machine == predicted_machine(target, None)
    title = f"one-host ({product_name})"
    assert title in repr(mg.simulate(executable)) and f"predicted for {title}" in executable.explain()
    assert executable.record()["machine"]["device"] == mg.simulate(executable).machine.device
    drawn = roofline(executable)
    assert (
        drawn["device"] == product_name
        and drawn["bandwidth"] == DEVICES[executable.record()["machine"]["device"]].bandwidth
    )
