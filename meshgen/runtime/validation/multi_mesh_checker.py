"""Proof that schedules of several meshes together cannot deadlock, and prediction of their start times.

A transfer is one event on two meshes: neither side continues before both arrive. Therefore, all launches must have a
common order that respects every stream and event, if the two sides of each transfer count as one launch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from meshgen.errors import Diagnostic, ScheduleError
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer
from meshgen.mesh import Mesh
from meshgen.runtime.plan import STREAMS, Item, Schedule

ItemIndex = tuple[int, int]  # index of the part, index of the item


@dataclass(frozen=True)
class Timeline:
    """Predicted start times of the items of every mesh, and duration of the step, including waits for transfers."""

    start: Mapping[ItemIndex, float]
    step_seconds: float


def check_parts(plans: Sequence[Schedule], meshes: Sequence[Mesh]) -> Timeline:
    """Return predicted times for the schedules of several meshes.

    Each schedule must already be proven individually.

    Raises:
        ScheduleError: MG0401, a transfer has no matching other side, or the meshes would deadlock.
    """
    if faults := list(_pair_faults(plans, meshes)):
        raise ScheduleError(*faults)
    predecessors = _needs(plans)
    partner = _partners(plans)
    start: dict[ItemIndex, float] = {}
    end: dict[ItemIndex, float] = {}
    queues = [
        [(p, n) for n, item in enumerate(plan.items) if item.stream == s]
        for p, plan in enumerate(plans)
        for s in range(STREAMS)
    ]
    heads = [deque(queue) for queue in queues if queue]

    def ready(launch: ItemIndex) -> bool:
        return all(need in end for side in _both_sides(launch, partner) for need in predecessors[side])

    while heads:
        count = len(end)
        for queue in heads:
            while queue and (queue[0] in end or ready(queue[0])):
                launch = queue.popleft()
                if launch not in end:  # The other side of the transfer may have processed the launch already.
                    sides = _both_sides(launch, partner)
                    begin = max((end[need] for side in sides for need in predecessors[side]), default=0.0)
                    finish = begin + max(plans[part].items[number].seconds for part, number in sides)
                    start.update(dict.fromkeys(sides, begin))
                    end.update(dict.fromkeys(sides, finish))
        heads = [queue for queue in heads if queue]
        if heads and len(end) == count:
            raise ScheduleError(*_stuck([queue[0] for queue in heads], predecessors, end, plans, meshes))
    return Timeline(start, max(end.values(), default=0.0))


def _both_sides(launch: ItemIndex, partner: Mapping[ItemIndex, ItemIndex]) -> tuple[ItemIndex, ...]:
    return (launch, partner[launch]) if launch in partner else (launch,)


def _needs(plans: Sequence[Schedule]) -> dict[ItemIndex, list[ItemIndex]]:
    """Return the launches for which each launch waits: the previous one on its stream, and those that record its events."""
    needs: dict[ItemIndex, list[ItemIndex]] = {}
    for part, plan in enumerate(plans):
        last: dict[int, int] = {}
        recorded: dict[int, int] = {}
        for index, item in enumerate(plan.items):
            predecessors = [
                *([last[item.stream]] if item.stream in last else []),
                *(recorded[event] for event in item.waits),
            ]
            needs[part, index] = [(part, item_index) for item_index in predecessors]
            last[item.stream] = index
            if item.records is not None:
                recorded[item.records] = index
    return needs


def _transfers(plans: Sequence[Schedule]) -> Iterator[tuple[ItemIndex, Item]]:
    for part, plan in enumerate(plans):
        yield from (((part, number), item) for number, item in enumerate(plan.items) if is_transfer(item))


def _partners(plans: Sequence[Schedule]) -> dict[ItemIndex, ItemIndex]:
    """Return a map from each side of a transfer between meshes to the other side."""
    sides = {(item.op, item.attrs.channel): launch for launch, item in _transfers(plans)}
    return {
        launch: sides[BETWEEN_MESHES[BETWEEN_MESHES.index(op) - 1], channel] for (op, channel), launch in sides.items()
    }


def _pair_faults(plans: Sequence[Schedule], meshes: Sequence[Mesh]) -> Iterator[Diagnostic]:
    sides: dict[int, list[tuple[ItemIndex, Item]]] = {}
    for launch, item in _transfers(plans):
        sides.setdefault(item.attrs.channel, []).append((launch, item))
    for channel, pair in sorted(sides.items()):
        if sorted(item.op for _, item in pair) != sorted(BETWEEN_MESHES):
            ops = ", ".join(f"'{item.label}' on @{meshes[part].name}" for (part, _), item in pair)
            yield Diagnostic("MG0401", f"transfer {channel} needs one send and one recv, got {ops}")
            continue
        (first, first_item), (second, second_item) = pair
        names = [meshes[first[0]].name, meshes[second[0]].name]
        if [second_item.attrs.peer.name, first_item.attrs.peer.name] != names:
            yield Diagnostic(
                "MG0401", f"transfer {channel} is between @{names[0]} and @{names[1]}, but names other meshes"
            )
        for name in ("shape", "source", "target"):
            if getattr(first_item.attrs, name) != getattr(second_item.attrs, name):
                text = f"{getattr(first_item.attrs, name)} on @{names[0]} and {getattr(second_item.attrs, name)} on @{names[1]}"
                yield Diagnostic("MG0401", f"the {name} of transfer {channel} is {text}")


def _stuck(heads: Sequence[ItemIndex], predecessors: Mapping[ItemIndex, list[ItemIndex]], done: Mapping[ItemIndex, float], plans: Sequence[Schedule],
           meshes: Sequence[Mesh]) -> Iterator[Diagnostic]:  # fmt: skip
    """Yield an error for each waiting transfer at which the meshes deadlock."""
    for part, number in heads:
        item = plans[part].items[number]
        if is_transfer(item) and all(need in done for need in predecessors[part, number]):
            text = f"@{meshes[part].name} waits in item {number} '{item.label}' for the other side of transfer {item.attrs.channel}"
            hint = "transfers between two meshes must be in the same order on both"
            yield Diagnostic("MG0401", f"{text}, which comes after an item that waits for this mesh", None, (), hint)
