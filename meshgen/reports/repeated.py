"""Find work that several devices compute redundantly, and warn if it is a large share of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.targets import predicted_on
from meshgen.errors import Diagnostic
from meshgen.ir.graph import Node, Value
from meshgen.mesh import Mesh
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import flops_text
from meshgen.sharding.arithmetic import Work

WARNED_SHARE = 1 / 3  # chosen: redundant share of a device's operations above which a warning is given
# chosen: seconds of kernels per step below which no warning is given; ten launches of 5 us by the host take longer
WARNED_SECONDS = 50e-6
SHOWN = 3  # chosen: number of op groups that a warning lists


@dataclass(frozen=True)
class Repeated:
    """Equal ops, such as those of repeated layers, that all devices along `axes` compute redundantly.

    `wasted` is the number of operations per device and step that sharding the ops over `axes` would save.
    """

    nodes: tuple[Node, ...]
    axes: tuple[str, ...]
    devices: int
    wasted: float

    @property
    def value(self) -> Value:
        """Return the first result of the first op of the group."""
        return self.nodes[0].results[0]

    def __str__(self) -> str:
        count = len(self.nodes)
        many = f"{count} x " if count > 1 else ""
        name = f" %{self.value.name}" if self.value.name else ""
        ops_text = f"{many}{self.nodes[0].op}{name} : {self.value.type}"
        return f"{ops_text} is computed by all {self.devices} devices along {', '.join(self.axes)}: {flops_text(self.wasted)} too many"


def repeated_work(executable: Compiled) -> list[Repeated]:
    """Return the groups of redundantly computed ops on one mesh, ordered by the wasted work."""
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in executable.work or ():
        if work.repeats and work.node.results:
            result = work.node.results[0]
            key = work.op, work.repeats, result.type, result.sharding, *(operand.type for operand in work.node.operands)
            groups.setdefault(key, []).append(work)
    return sorted((_repeated(group, executable.mesh) for group in groups.values()), key=lambda operand: -operand.wasted)


def _repeated(group: list[Work], mesh: Mesh) -> Repeated:
    axes = group[0].repeats
    devices = math.prod(map(mesh.axis_size, axes))
    wasted = sum(work.flops for work in group) * (1 - 1 / devices)
    return Repeated(tuple(work.node for work in group), axes, devices, wasted)


def repetition_warnings(executable: Compiled) -> Iterator[Diagnostic]:
    """Yield warning MG0404 for each mesh on which more than `WARNED_SHARE` of a step's work is redundant."""
    for part in executable.parts:
        if part.work is None or _work_seconds(part) < WARNED_SECONDS:
            continue
        groups, total = repeated_work(part), sum(work.flops for work in part.work)
        wasted = sum(group.wasted for group in groups)
        if wasted > WARNED_SHARE * total:
            yield _warning(groups, wasted / total)


def _work_seconds(part: Compiled) -> float:
    """Return the seconds of a step's kernels without the overhead of launching them."""
    launch = device_of(predicted_on(part.options.target, None, part.mesh)[0]).launch_seconds
    kernels = (kernel for kernel in part.plan.launches() if kernel.item.kernel)
    return sum((kernel.item.seconds - launch) * kernel.times for kernel in kernels)


def _warning(groups: list[Repeated], share: float) -> Diagnostic:
    first = groups[0]
    text = f"{100 * share:.0f} % of the work of a device is repeated on others: {first}"
    notes = tuple((str(group), group.nodes[0].loc) for group in groups[1:SHOWN] if group.wasted > 0.1 * first.wasted)
    name = f"%{first.value.name}" if first.value.name else "its result"
    axes = " and ".join(first.axes)
    hint = f"`meshgen explain --advise` tries annotations that split {name} over {axes}, and names those that make the step shorter"
    return Diagnostic("MG0404", text, first.nodes[0].loc, notes, hint)
