"""Summarize a step: the predicted time, its parts, and up to five points that contribute most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.errors import location_text
from meshgen.reports.causes import Group
from meshgen.reports.gathers import gathers
from meshgen.reports.interface import Compiled
from meshgen.reports.link_classes import machine_names
from meshgen.reports.memory import resident_groups
from meshgen.reports.merged_reasons import joined
from meshgen.reports.mesh_interactions import heading
from meshgen.reports.repeated import repeated_work
from meshgen.reports.sentences import named
from meshgen.reports.tables import bytes_text, counted, flops_text, seconds_text

MOST_POINTS = 5  # chosen: number of points in a verdict, so that it can be read at a glance
_LEAST_SHARE = 0.01  # chosen: share of the step below which a point is omitted
_REPEATED = 0.01  # chosen: redundant share of a device's operations above which redundant work is a point


@dataclass(frozen=True)
class Point:
    """One statement of a verdict: the seconds of the step that it concerns, a sentence, and the option that shows
    more.
    """

    seconds: float
    text: str
    command: str


@dataclass(frozen=True)
class Verdict:
    """The figures of a step, and the points that concern the largest part of it, in decreasing order of seconds."""

    lines: tuple[str, ...]
    points: tuple[Point, ...]

    def __str__(self) -> str:
        point_lines = [
            f"  {index}. {point.text}{f'  [{point.command}]' if point.command else ''}"
            for index, point in enumerate(self.points, 1)
        ]
        return "\n".join([*self.lines, *(["", "What matters most", *point_lines] if point_lines else [])])

    def record(self) -> dict[str, Any]:
        """Return the verdict as a JSON-serializable dict, for `--json` and the HTML page."""
        return asdict(self)


def verdict_of(executable: Compiled, groups: Sequence[Group]) -> Verdict:
    """Return the verdict: predicted step, peak memory, repeated work, bytes over links, and what matters most.

    Args:
        groups: all collectives of the program, grouped by cause.
    """
    candidates = [
        *_waits(groups),
        *_repeats(executable),
        *_computes(executable),
        *_more_memory(executable),
        *_gathers(executable),
    ]
    relevant = [point for point in candidates if point.seconds >= _LEAST_SHARE * executable.cost.step_seconds]
    points = sorted(relevant, key=lambda point: -point.seconds)[: MOST_POINTS - 1]
    return Verdict(tuple(_lines(executable)), (*points, *_buffers(executable)))


def _lines(executable: Compiled) -> Iterator[str]:
    cost, memory = executable.cost, executable.memory
    exposed, total = cost.exposed_seconds, cost.communication_seconds
    yield f"{executable.name} on {executable.place}, {executable.target}; predicted for {machine_names(executable)}"
    waiting_text = f"{seconds_text(exposed)} of them waiting for communication ({_percent(exposed, cost.step_seconds)})"
    step = f"Step    {seconds_text(cost.step_seconds)}, predicted"
    if total:
        yield f"{step}: {waiting_text}; {seconds_text(max(0.0, total - exposed))} of communication is hidden behind kernels"
    else:
        yield f"{step}; nothing is communicated"
    kinds: Counter[str] = Counter()
    for buffer in memory.live_at_peak:
        kinds[buffer.kind] += buffer.bytes
    names = {"input": "arguments", "output": "results", "constant": "constants", "temporary": "temporaries"}
    parts = ", ".join(f"{bytes_text(count)} {names.get(kind, kind)}" for kind, count in kinds.most_common())
    yield f"Memory  {bytes_text(memory.peak_bytes)} per device at the peak: {parts or 'nothing'}"
    repeated = "" if cost.redundant_flops is None else f", {_percent(cost.redundant_flops, cost.flops)} of it redundant"
    yield f"Work    {flops_text(cost.flops)} per device{repeated}; {bytes_text(cost.device_bytes)} of memory traffic in {cost.kernels} launches"
    if len(executable.comms):
        comms = executable.comms
        yield f"Links   {bytes_text(cost.ring_bytes)} per device in {counted(comms.runs, 'collective')}{comms.in_schedule}"
    if len(executable.parts) > 1:
        yield from (f"        {heading(executable, part)}" for part in executable.parts)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2g} %" if whole else "0 %"


def _waits(groups: Sequence[Group]) -> Iterator[Point]:
    for group in groups:
        cause = group.sentence.partition(", so each")[0].partition("; ")[0]
        text = f"{seconds_text(group.exposed_seconds)} waiting for {group.title}: {cause}"
        yield Point(group.exposed_seconds, text, f"--collective {group.numbers[0]}")


def _repeats(executable: Compiled) -> Iterator[Point]:
    """Yield a point about redundant work, with the share of the kernel time that it takes."""
    for part in executable.parts:
        analysis, groups = part.analysis, repeated_work(part)
        if analysis is None or not groups or not analysis.flops_per_device:
            continue
        share = sum(group.wasted for group in groups) / analysis.flops_per_device
        if share > _REPEATED:
            computing = sum(launch.item.seconds * launch.times for launch in part.plan.launches() if launch.item.kernel)
            text = f"{100 * share:.2g} % of the work is repeated on other devices, most by {groups[0]}"
            yield Point(share * computing, text, "--advise")


def _computes(executable: Compiled) -> Iterator[Point]:
    """Yield a point about the op whose kernels take the most time. Kernels are grouped by their main op."""
    times: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for part in executable.parts:
        for launch in part.plan.launches():
            if launch.item.kernel:
                kernel_op = main_op([node.op for node in part.plan.kernels[launch.item.kernel].nodes])
                times[kernel_op] = times.get(kernel_op, 0.0) + launch.item.seconds * launch.times
                counts[kernel_op] += launch.times
    for op, seconds in sorted(times.items(), key=lambda pair: -pair[1])[:1]:
        text = f"{seconds_text(seconds)} computing in {counts[op]} kernel launches around {op}"
        yield Point(seconds, text, "")


_HEAVY = ("dot_general", "convolution", "sort", "scatter", "gather", "reduce", "reduce_window")


def main_op(ops: Sequence[str]) -> str:
    """Return the most expensive op of a kernel body."""
    return next((op for op in _HEAVY if op in ops), "element-wise operations")


def _more_memory(executable: Compiled) -> Iterator[Point]:
    cost = executable.cost
    if cost.shorter:
        saved = cost.step_seconds - cost.shorter.step_seconds
        size = bytes_text(cost.shorter.memory_bytes * 1.005).replace(" ", "")
        yield Point(saved, f"{seconds_text(saved)} could be hidden with more memory", f"--memory-limit {size}")


def _gathers(executable: Compiled) -> Iterator[Point]:
    """Yield a point about the gathers that no annotation requires."""
    if unannotated := gathers(executable):
        moved, first = sum(gather.ring_bytes for gather in unannotated), unannotated[0]
        name = named(first.value) or f"the value of {location_text(first.made) or 'an operation'}"
        text = f"{counted(len(unannotated), 'value')} gathered although no annotation requires it, {bytes_text(moved)}; most for {name}"
        yield Point(sum(gather.seconds for gather in unannotated), text, "--strict, --advise")


def _buffers(executable: Compiled) -> Iterator[Point]:
    """Yield a point about the group of equal buffers that takes the most bytes at the peak."""
    largest = next(iter(resident_groups(executable.memory)), [])
    if largest:
        total = sum(resident.bytes for resident in largest)
        share = _percent(total, executable.memory.live_bytes)
        common = joined([resident.name for resident in largest])
        name = f" `{common}`" if named(common.replace("*", "0")) else ""
        buffers_text = f"{counted(len(largest), 'buffer')}{name} of {largest[0].type}, {largest[0].kind}"
        yield Point(0.0, f"{bytes_text(total)} ({share}) of the memory at the peak is in {buffers_text}", "--memory")
