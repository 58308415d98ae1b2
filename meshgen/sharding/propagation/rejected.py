"""List the alternatives that propagation rejected, with what each would cost: other loops of an operation, and hints that lost.

Example, on x=4 with `%a : f32[64,32]` annotated [{x}, {}] and `%h = dot_general %a, %w : f32[32,96]`:

    x: dot_general 'h' on whole values: 0.0281 us longer, as estimated

Alternatives are costed as in propagation: along one axis at a time, with the decisions along the others fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import bracketed, place_text
from meshgen.ir.axis_parts import NO_DIVISION
from meshgen.ir.predicates import is_transfer
from meshgen.sharding.propagation.chains import state_text
from meshgen.sharding.propagation.eliminate import Table, cheapest
from meshgen.sharding.propagation.labels import Label, asked_face
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.states import state_of


@dataclass(frozen=True)
class Rejected:
    """A rejected choice for an op along an axis, and by how much the step would be longer with it."""

    op: str
    axis: str
    choice: str
    seconds_more: float

    def __str__(self) -> str:
        return f"{self.axis}: {self.op} {self.choice}: {_more(self.seconds_more)}"


@dataclass(frozen=True)
class LostHint:
    """A hint that was not followed along an axis: the state it asked for, the chosen one, and why."""

    value: str
    axis: str
    asked: str
    chosen: str
    why: str
    location: str

    def __str__(self) -> str:
        where = bracketed(self.location)
        return f"hint for {self.value}{where}: along {self.axis} it {self.asked}, but {self.chosen}: {self.why}"


def _more(seconds: float | None) -> str:
    if seconds is None:
        return "not possible with the required annotations"
    return f"{seconds * 1e6:.3g} us longer, as estimated" if seconds > 1e-9 else "as fast, as estimated"


def rejected(solved: Solved, site: Site) -> list[Rejected]:
    """The rejected choices for a site that required annotations allow, along all axes."""
    number = solved.sites.index(site)
    found: list[Rejected] = []
    for axis, decision in solved.decisions.items():
        options, chosen = decision.problem.labels[number], decision.solution.labels[number]
        found += [
            Rejected(_op_text(site), axis, _label_text(site, label), more)
            for option, label in enumerate(options)
            if label != chosen and (more := _dearer(solved, axis, number, option)) is not None
        ]
    return found


def lost_hints(solved: Solved) -> Iterator[LostHint]:
    """The hints that lost, in program order."""
    for number, site in enumerate(solved.sites):
        annotation = site.annotation
        if (
            annotation is None or annotation.required or is_transfer(site.node)
        ):  # hints from another mesh are not the user's
            continue
        yield from _cut_otherwise(site)
        for axis, decision in solved.decisions.items():
            asked = state_of(annotation.sharding, axis)
            got = asked_face(site, decision.solution.labels[number])
            if asked is None or asked == got:
                continue
            options = [n for n, label in enumerate(decision.problem.labels[number]) if asked_face(site, label) == asked]
            costs = [cost for option in options if (cost := _dearer(solved, axis, number, option)) is not None]
            where = annotation.loc or site.node.loc
            why = f"keeping it is {_more(min(costs, default=None))}" if options else "its op cannot be split that way"
            name = f"%{site.value.name or '?'}"
            yield LostHint(name, axis, state_text(asked), f"it {state_text(got)}", why, place_text(where))


def _cut_otherwise(site: Site) -> Iterator[LostHint]:
    """The parts of axes in a hint that do not nest in those of the other annotations."""
    if site.asked is None or site.annotation is None:
        return
    where = place_text(site.annotation.loc or site.node.loc)
    for axis in site.misfits:
        asked = state_text(state_of(site.asked, axis))
        yield LostHint(f"%{site.value.name or '?'}", axis, asked, "it is not", NO_DIVISION, where)


def _dearer(solved: Solved, axis: str, number: int, option: int) -> float | None:
    """By how much the cheapest program with this label of a site is slower; None if that is forbidden."""
    decision = solved.decisions[axis]
    costs = np.full(decision.problem.sizes[number], np.inf)
    costs[option] = 0.0
    found = cheapest(decision.problem.sizes, [*decision.problem.tables, Table((number,), costs)])
    more = found.cost - decision.solution.seconds
    return None if more > DEFAULT.propagation.forbidden_seconds / 2 else max(0.0, more)


def _op_text(site: Site) -> str:
    name = site.node.results[0].name if site.node.results else ""
    return site.node.op + (f" '{name}'" if name else "")


def _label_text(site: Site, label: Label) -> str:
    if label.factor is not None:
        loop = site.rule.factors[label.factor]
        return f"split over loop {loop.name} ({loop.size})"
    kinds = [state for state in (*label.operands, *label.results) if isinstance(state, str)]
    partial = [isinstance(state, str) for state in label.operands]
    names = [f"%{v.name or '?'}" for v, is_partial in zip(site.node.operands, partial, strict=True) if is_partial]
    which = "" if all(partial) or not names else f" of {', '.join(names)}"
    return f"with partial values ({kinds[0]}){which}" if kinds else "on whole values"
