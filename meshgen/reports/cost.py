"""Floating-point work, memory traffic and time of one step of a compiled program, predicted by the cost model."""

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
    """The time and memory of a schedule that is faster but exceeds the memory limit."""

    step_seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class Cost:
    """The predicted work, traffic and time of one step on one device.

    Attributes:
        redundant_flops: the part of `flops` that other devices compute, too; None for a program that was written per
            device.
        serial_seconds: length of the step without overlap.
        communication_seconds: total time of the collectives, including the part that overlaps with kernels.
        shorter: the step without a memory limit, or None if the limit does not make the step longer.
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
        """Return the time by which overlap shortens the step."""
        return max(0.0, self.serial_seconds - self.step_seconds)

    def __str__(self) -> str:
        return render(cost_table(self))

    def _repr_html_(self) -> str:
        """Return the cost table as HTML, for notebooks."""
        return render(cost_table(self), html=True)


def cost_of(plan: Schedule, comms: Comms, flops: Mapping[str, float], redundant_flops: float | None = None,
            unlimited: Schedule | None = None) -> Cost:  # fmt: skip
    """Return the predicted cost of a step.

    Args:
        flops: floating-point operations by kernel.
        redundant_flops: counted before partitioning, and capped by the total of `flops`, since kernels may skip some of
            that work.
        unlimited: the schedule that was made without a memory limit.
    """
    launches = [launch for launch in plan.launches() if launch.item.kernel]
    total = sum(flops[launch.item.kernel] * launch.times for launch in launches)
    return Cost(
        flops=total,
        redundant_flops=None if redundant_flops is None else min(redundant_flops, total),
        device_bytes=sum(launch_bytes(launch.item, launch.plan) * launch.times for launch in launches),
        kernels=sum(launch.times for launch in launches),
        distinct_kernels=len({launch.item.kernel for launch in launches}),
        ring_bytes=comms.ring_bytes,
        step_seconds=plan.step_seconds,
        exposed_seconds=plan.exposed_seconds,
        communication_seconds=sum(e.item.seconds * e.times for e in plan.launches() if e.item.is_collective),
        serial_seconds=_serial_seconds(plan),
        shorter=_shorter(plan, unlimited),
    )


def _serial_seconds(plan: Schedule) -> float:
    """Return the total seconds of all items of a schedule, including the items of regions, as if none overlapped."""
    overlapped = sum(item.seconds for item in plan.items)
    runs = (run for item in plan.items for run in item.runs)
    return overlapped + sum((_serial_seconds(region) - region.step_seconds) * times for region, times in runs)


def _shorter(plan: Schedule, unlimited: Schedule | None) -> Shorter | None:
    if unlimited is None or unlimited.step_seconds * DEFAULT.scheduling.same_step >= plan.step_seconds:
        return None
    return Shorter(unlimited.step_seconds, unlimited.arena_bytes)


def launch_bytes(item: Item, plan: Schedule) -> int:
    """Return the bytes of device memory that the kernel of `item` reads and writes, or 0 if `item` launches no
    kernel.
    """
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
        # in three digits, rounded up, so that a limit of the shown size is sufficient
        limit = bytes_text(cost.shorter.memory_bytes * 1.005).replace(" ", "")
        rows.append(("with more memory", f"{seconds_text(cost.shorter.step_seconds)}: --memory-limit {limit}"))
    return table_of("Cost per device and step, predicted", ("", "value"), rows)
