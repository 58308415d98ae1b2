"""Work, traffic and time of one step of a compiled program, by the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from meshgen.codegen.roofline.kernel_time import kernel_bytes
from meshgen.cost_model.model import DEFAULT
from meshgen.reports.comms import Comms
from meshgen.reports.tables import Table, bytes_text, counted, flops_text, render, seconds_text, table_of
from meshgen.runtime.plan import Item, Schedule


class Shorter(NamedTuple):
    """A shorter step that takes more memory."""

    step_seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class Cost:
    """What one step of one rank does by the cost model.

    Without overlap the step would take `serial_seconds`, of which `communication_seconds` on links; overlap hides part
    of these under kernels. `shorter` is the step without a memory limit, if that is shorter. `redundant_flops`, of the
    `flops`, repeat work of other devices (None: unknown, for a program that was written per device).
    """

    flops: float
    redundant_flops: float | None
    device_bytes: int
    kernels: int
    distinct_kernels: int
    ring_bytes: int
    step_seconds: float
    exposed_seconds: float
    communication_seconds: float
    serial_seconds: float
    shorter: Shorter | None = None

    @property
    def overlap_gain_seconds(self) -> float:
        """By how much overlap makes the step shorter."""
        return max(0.0, self.serial_seconds - self.step_seconds)

    def __str__(self) -> str:
        return render(cost_table(self))

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return render(cost_table(self), html=True)


def cost_of(plan: Schedule, comms: Comms, flops: Mapping[str, float], redundant_flops: float | None = None,
            unlimited: Schedule | None = None) -> Cost:  # fmt: skip
    """Totals of a step; `flops` per kernel; `unlimited` is the schedule that may take any memory.

    `redundant_flops` are counted before partition; kernels may leave out some of that work, so they are at most the kernels' `flops`.
    """
    launches = [each for each in plan.launches() if each.item.kernel]
    total = sum(flops[each.item.kernel] * each.times for each in launches)
    return Cost(
        flops=total,
        redundant_flops=None if redundant_flops is None else min(redundant_flops, total),
        device_bytes=sum(launch_bytes(each.item, each.plan) * each.times for each in launches),
        kernels=sum(each.times for each in launches),
        distinct_kernels=len({each.item.kernel for each in launches}),
        ring_bytes=comms.ring_bytes,
        step_seconds=plan.step_seconds,
        exposed_seconds=plan.exposed_seconds,
        communication_seconds=sum(e.item.seconds * e.times for e in plan.launches() if e.item.is_collective),
        serial_seconds=_serial_seconds(plan),
        shorter=_shorter(plan, unlimited),
    )


def _serial_seconds(plan: Schedule) -> float:
    """Return the seconds of one item after the other, those of regions too."""
    overlapped = sum(item.seconds for item in plan.items)
    runs = (run for item in plan.items for run in item.runs)
    return overlapped + sum((_serial_seconds(region) - region.step_seconds) * times for region, times in runs)


def _shorter(plan: Schedule, unlimited: Schedule | None) -> Shorter | None:
    if unlimited is None or unlimited.step_seconds * DEFAULT.scheduling.same_step >= plan.step_seconds:
        return None
    return Shorter(unlimited.step_seconds, unlimited.arena_bytes)


def launch_bytes(item: Item, plan: Schedule) -> int:
    """Device memory that the kernel of an item reads and writes; 0 of an item that launches none."""
    return kernel_bytes(plan.kernels[item.kernel]) if item.kernel else 0


def cost_table(cost: Cost) -> Table:
    redundant = (
        "" if cost.redundant_flops is None else f", {flops_text(cost.redundant_flops)} of them on other devices too"
    )
    rows = [
        ("kernels", f"{counted(cost.kernels, 'launch')}, {cost.distinct_kernels} distinct"),
        ("floating-point operations", f"{flops_text(cost.flops)}{redundant}"),
        ("device memory traffic", bytes_text(cost.device_bytes)),
        ("link traffic", bytes_text(cost.ring_bytes)),
        ("step", seconds_text(cost.step_seconds)),
        ("communication", f"{seconds_text(cost.communication_seconds)}, {seconds_text(cost.exposed_seconds)} exposed"),
        (
            "without overlap",
            f"{seconds_text(cost.serial_seconds)}: overlap gains {seconds_text(cost.overlap_gain_seconds)}",
        ),
    ]
    if cost.shorter:
        limit = bytes_text(cost.shorter.memory_bytes * 1.005).replace(" ", "")  # three digits, not less than it needs
        rows.append(("with more memory", f"{seconds_text(cost.shorter.step_seconds)}: --memory-limit {limit}"))
    return table_of("Cost per device and step, predicted", ("", "value"), rows)
