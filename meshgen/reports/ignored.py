"""Reports where a plan deviates from annotations: overridden hints, violated requirements, and decisions not proven
optimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from meshgen.reports.annotations import OtherUse, UnfollowedAnnotation, other_uses, unfollowed_annotations
from meshgen.reports.interface import Compiled
from meshgen.reports.value_reasons import solved_of
from meshgen.sharding.propagation.alternatives import OverriddenHint, overridden_hints
from meshgen.sharding.propagation.solve import Gap


def hints_that_lost(executable: Compiled) -> list[OverriddenHint | UnfollowedAnnotation]:
    """Return the hints that propagation overrode or whose values the optimizer removed, mesh by mesh."""
    hints: list[OverriddenHint | UnfollowedAnnotation] = []
    for part in executable.parts:
        hints += overridden_hints(solved) if (solved := solved_of(part)) else ()
        hints += (annotation for annotation in unfollowed_annotations(part) if not annotation.required)
    return hints


def not_as_required(executable: Compiled) -> list[UnfollowedAnnotation | OtherUse]:
    """Return the required annotations that no value of the optimized program follows, and the uses that violate one, by
    mesh.
    """
    violations: list[UnfollowedAnnotation | OtherUse] = []
    for part in executable.parts:
        violations += (annotation for annotation in unfollowed_annotations(part) if annotation.required)
        violations += other_uses(solved) if (solved := solved_of(part)) else ()
    return violations


def _gaps(executable: Compiled) -> list[Gap]:
    """Return the sharding decisions of all meshes that are not proven optimal."""
    return [gap for part in executable.parts if (solved := solved_of(part)) for gap in solved.gaps()]


def annotation_record(executable: Compiled) -> dict[str, Any]:
    """Return overridden hints, violated required annotations and unproven decisions of all meshes, for `--json`."""
    return {
        "hints_that_lost": [asdict(hint) for hint in hints_that_lost(executable)],
        "not_as_required": [asdict(violation) for violation in not_as_required(executable)],
        "not_proven_best": [gap._asdict() for gap in _gaps(executable)],
    }


def ignored_of(executable: Compiled) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (title, lines) pairs about the entries of `annotation_record`, and about meshes whose device order
    changed.
    """
    entries_by_title = {
        "Hints that lost": hints_that_lost(executable),
        "Required annotations that no value follows": not_as_required(executable),
        "Decisions not proven best": _gaps(executable),
        "Meshes whose order of devices is not kept": _reordered_meshes(executable),
    }
    yield from ((title, tuple(map(str, entries))) for title, entries in entries_by_title.items() if entries)


def _reordered_meshes(executable: Compiled) -> list[str]:
    """Return a line for each mesh that has the devices of another mesh in an order which no permutation of axes
    produces.
    """
    modules = [part.stages["import"] for part in executable.parts if "import" in part.stages]
    orders = {symbol: order for module in modules for symbol, order in module.reordered.items()}
    return [
        f"@{symbol}, devices {[*order]}: its tiles are on the ranks of another mesh over these devices"
        for symbol, order in orders.items()
    ]
