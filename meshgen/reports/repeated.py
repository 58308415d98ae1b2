"""Work that several devices do alike: which ops, along which mesh axes, and a warning where it is much of a step."""

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

WARNED_SHARE = 1 / 3  # of the operations of a device, from which repeated work is worth a warning
# Seconds of kernels besides their launches: below, ten launches of 5 us each by the host take longer than all work.
WARNED_SECONDS = 50e-6
SHOWN = 3  # groups of ops in a warning


@dataclass(frozen=True)
class Repeated:
    """Ops that are alike, as those of repeated layers, whose work all devices along `axes` do; `wasted`: operations that a device would not do were they split."""

    nodes: tuple[Node, ...]
    axes: tuple[str, ...]
    devices: int
    wasted: float

    @property
    def value(self) -> Value:
        """What the first of them makes."""
        return self.nodes[0].results[0]

    def __str__(self) -> str:
        count = len(self.nodes)
        many = f"{count} x " if count > 1 else ""
        name = f" %{self.value.name}" if self.value.name else ""
        what = f"{many}{self.nodes[0].op}{name} : {self.value.type}"
        return f"{what} is computed by all {self.devices} devices along {', '.join(self.axes)}: {flops_text(self.wasted)} too many"


def repeated_work(executable: Compiled) -> list[Repeated]:
    """The groups of ops of the program of one mesh that waste the most work, those first."""
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in executable.work or ():
        if work.repeats and work.node.results:
            made = work.node.results[0]
            key = work.op, work.repeats, made.type, made.sharding, *(each.type for each in work.node.operands)
            groups.setdefault(key, []).append(work)
    return sorted((_repeated(group, executable.mesh) for group in groups.values()), key=lambda each: -each.wasted)


def _repeated(group: list[Work], mesh: Mesh) -> Repeated:
    axes = group[0].repeats
    devices = math.prod(map(mesh.axis_size, axes))
    wasted = sum(work.flops for work in group) * (1 - 1 / devices)
    return Repeated(tuple(work.node for work in group), axes, devices, wasted)


def repetition_warnings(executable: Compiled) -> Iterator[Diagnostic]:
    """MG0404 for each mesh on which more than a third of a step's work is repeated, if there is work enough to matter."""
    for part in executable.parts:
        if part.work is None or _work_seconds(part) < WARNED_SECONDS:
            continue
        found, total = repeated_work(part), sum(work.flops for work in part.work)
        wasted = sum(each.wasted for each in found)
        if wasted > WARNED_SHARE * total:
            yield _warning(found, wasted / total)


def _work_seconds(part: Compiled) -> float:
    """Time of a step's kernels without what their launches take."""
    launch = device_of(predicted_on(part.options.target, None, part.mesh)[0]).launch_seconds
    kernels = (each for each in part.plan.launches() if each.item.kernel)
    return sum((each.item.seconds - launch) * each.times for each in kernels)


def _warning(found: list[Repeated], share: float) -> Diagnostic:
    first = found[0]
    text = f"{100 * share:.0f} % of the work of a device is repeated on others: {first}"
    notes = tuple((str(each), each.nodes[0].loc) for each in found[1:SHOWN] if each.wasted > 0.1 * first.wasted)
    name = f"%{first.value.name}" if first.value.name else "what it makes"
    axes = " and ".join(first.axes)
    hint = f"`meshgen explain --advise` tries annotations that split {name} over {axes}, and names those that make the step shorter"
    return Diagnostic("MG0404", text, first.nodes[0].loc, notes, hint)
