"""Plans for multi-host machines: activations stay inside a host, and gradients cross the network during other work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import meshgen as mg
from meshgen.api import plan, plan_module
from meshgen.frontend.arguments import with_machine
from meshgen.machine.profiles import MACHINES, Link, Machine
from meshgen.mesh import make_mesh
from meshgen.pipeline import Timing
from meshgen.reports.link_classes import link_classes, link_of
from meshgen.testing.random_programs import options_of, program_of

HOSTS = ["dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200"]
TOKENS, HIDDEN, WIDE = 16384, 4096, 16384  # tokens per host


def training(x: Any, w1: Any, w2: Any) -> Any:
    """Return the gradients of two layers; `x` is also the target."""
    hidden = x @ w1
    error = hidden @ w2 - x
    return (x.T @ (error @ w2.T), hidden.T @ error)


TENSOR_PARALLEL = (mg.P("dp"), mg.P(None, "tp"), mg.P("tp"))
FULLY_SHARDED = (mg.P("fsdp"), mg.P("fsdp"), mg.P("fsdp"))


def planned(mesh: dict[str, int], specs: Any, machine: str | Machine | None, **options: Any) -> mg.Executable:
    first = next(iter(mesh.values()))
    args = [f"bf16[{TOKENS * first},{HIDDEN}]", f"bf16[{HIDDEN},{WIDE}]", f"bf16[{WIDE},{HIDDEN}]"]
    return plan(training, mesh, args=args, in_specs=specs, out_specs=specs[1:], machine=machine, **options)


@pytest.mark.parametrize("hosts", [2, 16])
@pytest.mark.parametrize("machine", HOSTS)
def test_tensor_parallel_stays_inside_hosts(machine: str, hosts: int) -> None:
    executable = planned({"dp": hosts, "tp": 8}, TENSOR_PARALLEL, machine)
    inside, between = link_classes(executable)
    assert (inside.name, inside.axes) == ("nvlink", ("tp",)) and (between.name, between.axes) == ("infiniband", ("dp",))
    gradients = 2 * HIDDEN * WIDE // 8 * 2  # bytes of the gradients of both layers, for the shard of one device
    assert between.ring_bytes == 2 * (hosts - 1) * gradients // hosts, "each summed once over dp, and nothing else"
    assert between.exposed_seconds < 0.9 * between.seconds, "the first is summed while the second is computed"


@pytest.mark.parametrize("machine", HOSTS)
def test_axis_over_hosts_uses_all_network_ports(machine: str) -> None:
    one_host, two_hosts = (planned({"fsdp": n}, FULLY_SHARDED, machine) for n in (8, 16))
    assert [link_class.name for link_class in link_classes(one_host)] == ["nvlink"]
    (spanning,) = link_classes(two_hosts)
    assert spanning.name == "infiniband" and two_hosts.comms.counts.keys() == one_host.comms.counts.keys()
    nvlink, port = MACHINES[machine].links
    rate = min(nvlink.bytes_per_second, 8 * port.bytes_per_second)
    assert spanning.ring_bytes / rate < spanning.seconds < 2 * spanning.ring_bytes / rate


def test_gather_from_other_host_uses_all_network_ports() -> None:
    """Check a gather as one ring over all devices: each device of a host receives a part through its own port."""

    def doubled(x: Any) -> Any:
        return x * 2.0

    def kinds(machine: str | None) -> list[tuple[str, tuple[str, ...]]]:
        specs: dict[str, Any] = {"in_specs": [mg.P("dp")], "out_specs": [mg.P()]}
        executable = plan(
            doubled, {"dp": 2, "tp": 8}, args=["f32[8192,4096]"], machine=machine, skip=["chunks"], **specs
        )
        return [(row.kind, row.axes) for row in executable.comms]

    assert kinds(None) == [("all_gather", ("dp",))]
    assert kinds("dgx-h100") == [("all_gather", ("dp", "tp"))]


def test_link_of_axis_follows_mesh_axis_order() -> None:
    inner, outer = (
        replace(make_mesh(sizes), machine=MACHINES["dgx-h100"]) for sizes in ({"a": 2, "b": 8}, {"b": 8, "a": 2})
    )
    assert (link_of(inner, ("b",)), link_of(inner, ("a",))) == ("nvlink", "infiniband")
    assert (link_of(outer, ("b",)), link_of(outer, ("a",))) == ("infiniband", "nvlink")


@pytest.mark.parametrize("mesh", [{"dp": 2, "tp": 8}, {"dp": 4, "tp": 4}], ids=str)
def test_simulated_step_equals_planned_step(mesh: dict[str, int]) -> None:
    ideal = replace(MACHINES["dgx-h100"], overlap_slowdown=0.0)
    executable = planned(mesh, TENSOR_PARALLEL, ideal)
    assert mg.simulate(executable).machine == ideal
    assert mg.simulate(executable).step_seconds == pytest.approx(executable.cost.step_seconds, rel=1e-9)
    assert mg.simulate(executable).step_seconds > planned(mesh, TENSOR_PARALLEL, None).cost.step_seconds


@pytest.mark.parametrize("seed", range(16))
def test_simulated_step_of_random_programs_equals_planned_step(seed: int) -> None:
    """The hosts are so small that mesh axes span them only partly."""
    module = program_of(seed)
    if module.parts:
        pytest.skip("several meshes")
    links = Link("nvlink", 2 + seed % 3, 370e9, 8e-6), Link("network", None, 10e9, 20e-6)
    machine = Machine("small", links, overlap_slowdown=0.0)
    executable = plan_module(with_machine(module, machine), options_of(seed), Timing())
    assert mg.simulate(executable).step_seconds == pytest.approx(executable.cost.step_seconds, rel=1e-9)


def test_step_time_scales_with_memory_bandwidth() -> None:
    steps = {
        name: plan(mg.tanh, {"x": 2}, args=["f32[8192,8192]"], machine=name).cost.step_seconds
        for name in ("dgx-h100", "dgx-h200", "dgx-b200")
    }
    assert steps["dgx-h100"] / steps["dgx-h200"] == pytest.approx(4.8 / 3.35, rel=0.05)
    assert steps["dgx-h200"] / steps["dgx-b200"] == pytest.approx(8.0 / 4.8, rel=0.05)


def test_device_memory_is_default_memory_limit() -> None:
    mesh = {"dp": 2, "tp": 8}
    needed = planned(mesh, TENSOR_PARALLEL, "dgx-h100").plan.arena_bytes
    assert needed >= planned(mesh, TENSOR_PARALLEL, None).plan.arena_bytes
    small = replace(MACHINES["dgx-h100"], name="small", memory_bytes=1 << 20)
    with pytest.raises(mg.MeshgenError, match=r"MG0303.* more than the limit of 1.05 MB"):
        planned(mesh, TENSOR_PARALLEL, small)
    assert planned(mesh, TENSOR_PARALLEL, small, memory_limit=1 << 40).plan.arena_bytes == needed


def test_mesh_transfer_uses_outermost_link() -> None:
    def two(x: Any) -> Any:
        return mg.annotate(mg.exp(mg.annotate(mg.tanh(x), mg.P(mesh="a"))), mg.P(mesh="b"))

    slow = Machine("slow", (Link("nvlink", 8, 370e9, 8e-6), Link("ethernet", None, 1e9, 50e-6)))
    meshes = {"a": {"x": 2}, "b": {"x": 2}}
    executable = plan(two, meshes, args=["f32[1024,1024]"], target="cpu", machine=slow)
    sent = [row for row in executable.comms if row.kind == "transfer_send"]
    assert link_classes(executable)[-1].name == "ethernet" and link_classes(executable)[-1].times == 2
    assert sent[0].seconds == pytest.approx(50e-6 + sent[0].ring_bytes / 1e9, rel=0.05)
