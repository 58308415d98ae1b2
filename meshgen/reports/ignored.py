"""What the plan of a program does not follow: hints that lost, required annotations without a value, and axes without a proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from meshgen.reports.annotations import OtherUse, Unmade, other_uses, unmade
from meshgen.reports.interface import Compiled
from meshgen.reports.values import solved_of
from meshgen.sharding.propagation.rejected import LostHint, lost_hints
from meshgen.sharding.propagation.solve import Gap


def hints_that_lost(executable: Compiled) -> list[LostHint | Unmade]:
    """The hints that propagation did not follow, and those whose values optimization dropped, mesh by mesh."""
    found: list[LostHint | Unmade] = []
    for part in executable.parts:
        found += lost_hints(solved) if (solved := solved_of(part)) else ()
        found += (each for each in unmade(part) if not each.required)
    return found


def not_as_required(executable: Compiled) -> list[Unmade | OtherUse]:
    """The required annotations that no value of the optimized program follows, and the uses that contradict one, mesh by mesh."""
    found: list[Unmade | OtherUse] = []
    for part in executable.parts:
        found += (each for each in unmade(part) if each.required)
        found += other_uses(solved) if (solved := solved_of(part)) else ()
    return found


def _gaps(executable: Compiled) -> list[Gap]:
    """The decisions that are not proven best."""
    return [gap for part in executable.parts if (solved := solved_of(part)) for gap in solved.gaps()]


def annotation_record(executable: Compiled) -> dict[str, Any]:
    """For `--json`: the hints that lost, the required annotations that no value follows, and the axes without a proof, of all meshes."""
    return {
        "hints_that_lost": [asdict(hint) for hint in hints_that_lost(executable)],
        "not_as_required": [asdict(each) for each in not_as_required(executable)],
        "not_proven_best": [gap._asdict() for gap in _gaps(executable)],
    }


def ignored_of(executable: Compiled) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The same as titles and the lines under each, and the meshes whose order of devices is not kept."""
    found = {
        "Hints that lost": hints_that_lost(executable),
        "Required annotations that no value follows": not_as_required(executable),
        "Decisions not proven best": _gaps(executable),
        "Meshes whose order of devices is not kept": _reordered_meshes(executable),
    }
    yield from ((title, tuple(map(str, each))) for title, each in found.items() if each)


def _reordered_meshes(executable: Compiled) -> list[str]:
    """Return the meshes that list the devices of another mesh in an order that none of its axes have."""
    modules = [part.stages["import"] for part in executable.parts if "import" in part.stages]
    orders = {symbol: order for module in modules for symbol, order in module.reordered.items()}
    return [
        f"@{symbol}, devices {[*order]}: its tiles are on the ranks of another mesh over these devices"
        for symbol, order in orders.items()
    ]
