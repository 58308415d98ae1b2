"""Proof that the schedules of several meshes together have no deadlock, and when their launches start.

A transfer is one event on two meshes: neither side continues before both arrive. So the launches of all meshes,
each transfer's two sides taken as one, must have an order that every stream and every event allows.
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

Place = tuple[int, int]  # part, item


@dataclass(frozen=True)
class Timeline:
    """Start times of the items of every part and the duration of the step, with waits for transfers."""

    start: Mapping[Place, float]
    step_seconds: float


def check_parts(plans: Sequence[Schedule], meshes: Sequence[Mesh]) -> Timeline:
    """The times of schedules, each of which is already proven.

    Raises ScheduleError MG0401 where a transfer lacks its other side, both sides differ, or meshes would deadlock.
    """
    if faults := list(_pair_faults(plans, meshes)):
        raise ScheduleError(*faults)
    needs = _needs(plans)
    partner = _partners(plans)
    start: dict[Place, float] = {}
    end: dict[Place, float] = {}
    queues = [
        [(p, n) for n, item in enumerate(plan.items) if item.stream == s]
        for p, plan in enumerate(plans)
        for s in range(STREAMS)
    ]
    heads = [deque(queue) for queue in queues if queue]

    def ready(place: Place) -> bool:
        return all(need in end for each in _one(place, partner) for need in needs[each])

    while heads:
        count = len(end)
        for queue in heads:
            while queue and (queue[0] in end or ready(queue[0])):
                place = queue.popleft()
                if place not in end:  # the other side of a transfer has arrived
                    both = _one(place, partner)
                    begin = max((end[need] for each in both for need in needs[each]), default=0.0)
                    finish = begin + max(plans[part].items[number].seconds for part, number in both)
                    start.update(dict.fromkeys(both, begin))
                    end.update(dict.fromkeys(both, finish))
        heads = [queue for queue in heads if queue]
        if heads and len(end) == count:
            raise ScheduleError(*_stuck([queue[0] for queue in heads], needs, end, plans, meshes))
    return Timeline(start, max(end.values(), default=0.0))


def _one(place: Place, partner: Mapping[Place, Place]) -> tuple[Place, ...]:
    return (place, partner[place]) if place in partner else (place,)


def _needs(plans: Sequence[Schedule]) -> dict[Place, list[Place]]:
    """The launches that each one waits for: the one before on its stream, and those of its events."""
    found: dict[Place, list[Place]] = {}
    for part, plan in enumerate(plans):
        last: dict[int, int] = {}
        recorded: dict[int, int] = {}
        for number, item in enumerate(plan.items):
            before = [*([last[item.stream]] if item.stream in last else []), *(recorded[event] for event in item.waits)]
            found[part, number] = [(part, each) for each in before]
            last[item.stream] = number
            if item.records is not None:
                recorded[item.records] = number
    return found


def _transfers(plans: Sequence[Schedule]) -> Iterator[tuple[Place, Item]]:
    for part, plan in enumerate(plans):
        yield from (((part, number), item) for number, item in enumerate(plan.items) if is_transfer(item))


def _partners(plans: Sequence[Schedule]) -> dict[Place, Place]:
    """The other side of each transfer."""
    sides = {(item.op, item.attrs.channel): place for place, item in _transfers(plans)}
    return {
        place: sides[BETWEEN_MESHES[BETWEEN_MESHES.index(op) - 1], channel] for (op, channel), place in sides.items()
    }


def _pair_faults(plans: Sequence[Schedule], meshes: Sequence[Mesh]) -> Iterator[Diagnostic]:
    sides: dict[int, list[tuple[Place, Item]]] = {}
    for place, item in _transfers(plans):
        sides.setdefault(item.attrs.channel, []).append((place, item))
    for channel, pair in sorted(sides.items()):
        if sorted(item.op for _, item in pair) != sorted(BETWEEN_MESHES):
            ops = ", ".join(f"'{item.label}' on @{meshes[part].name}" for (part, _), item in pair)
            yield Diagnostic("MG0401", f"transfer {channel} needs one send and one recv, got {ops}")
            continue
        (first, one), (second, other) = pair
        names = [meshes[first[0]].name, meshes[second[0]].name]
        if [other.attrs.peer.name, one.attrs.peer.name] != names:
            yield Diagnostic(
                "MG0401", f"transfer {channel} is between @{names[0]} and @{names[1]}, but names other meshes"
            )
        for name in ("shape", "source", "target"):
            if getattr(one.attrs, name) != getattr(other.attrs, name):
                text = f"{getattr(one.attrs, name)} on @{names[0]} and {getattr(other.attrs, name)} on @{names[1]}"
                yield Diagnostic("MG0401", f"the {name} of transfer {channel} is {text}")


def _stuck(heads: Sequence[Place], needs: Mapping[Place, list[Place]], done: Mapping[Place, float], plans: Sequence[Schedule],
           meshes: Sequence[Mesh]) -> Iterator[Diagnostic]:  # fmt: skip
    """The transfers at which meshes deadlock."""
    for part, number in heads:
        item = plans[part].items[number]
        if is_transfer(item) and all(need in done for need in needs[part, number]):
            text = f"@{meshes[part].name} waits in item {number} '{item.label}' for the other side of transfer {item.attrs.channel}"
            hint = "transfers between two meshes must be in the same order on both"
            yield Diagnostic("MG0401", f"{text}, which comes after an item that waits for this mesh", None, (), hint)
