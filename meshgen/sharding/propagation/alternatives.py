"""List the alternatives that propagation rejected, with their costs: other loops of an operation, and overridden hints.

Example, on x=4 with `%a : f32[64,32]` annotated [{x}, {}] and `%h = dot_general %a, %w : f32[32,96]`:

    x: dot_general 'h' on whole values: 0.0281 us longer, as estimated

Alternatives are costed as in propagation: along one axis at a time, with the decisions along the others fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import bracketed, location_text
from meshgen.ir.axis_parts import NO_DIVISION
from meshgen.ir.predicates import is_transfer
from meshgen.sharding.propagation.chains import state_text
from meshgen.sharding.propagation.eliminate import Table, cheapest
from meshgen.sharding.propagation.labels import Label, annotated_value_state
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.states import state_of


@dataclass(frozen=True)
class Rejected:
    """A rejected choice for an op along an axis, and the seconds by which it would lengthen the step."""

    op: str
    axis: str
    choice: str
    seconds_more: float

    def __str__(self) -> str:
        return f"{self.axis}: {self.op} {self.choice}: {_extra_text(self.seconds_more)}"


@dataclass(frozen=True)
class OverriddenHint:
    """A hint that propagation overrode along an axis: the state that the hint requests, the chosen state, and the
    reason.
    """

    value: str
    axis: str
    asked: str
    chosen: str
    why: str
    location: str

    def __str__(self) -> str:
        where = bracketed(self.location)
        return f"hint for {self.value}{where}: along {self.axis} it {self.asked}, but {self.chosen}: {self.why}"


def _extra_text(seconds: float | None) -> str:
    if seconds is None:
        return "not possible with the required annotations"
    return f"{seconds * 1e6:.3g} us longer, as estimated" if seconds > 1e-9 else "as fast, as estimated"


def rejected(solved: Solved, site: Site) -> list[Rejected]:
    """Return the rejected choices for a site along all axes. Choices that required annotations forbid are left out."""
    index = solved.sites.index(site)
    alternatives: list[Rejected] = []
    for axis, decision in solved.decisions.items():
        options, chosen_label = decision.problem.labels[index], decision.solution.labels[index]
        alternatives += [
            Rejected(_op_text(site), axis, _label_text(site, label), extra_seconds)
            for option, label in enumerate(options)
            if label != chosen_label and (extra_seconds := _extra_seconds(solved, axis, index, option)) is not None
        ]
    return alternatives


def overridden_hints(solved: Solved) -> Iterator[OverriddenHint]:
    """Yield the overridden hints, in program order."""
    for index, site in enumerate(solved.sites):
        annotation = site.annotation
        # A hint from another mesh comes from the compiler, not from the user.
        if annotation is None or annotation.required or is_transfer(site.node):
            continue
        yield from _misfit_hints(site)
        for axis, decision in solved.decisions.items():
            hinted_state = state_of(annotation.sharding, axis)
            chosen_state = annotated_value_state(site, decision.solution.labels[index])
            if hinted_state is None or hinted_state == chosen_state:
                continue
            options = [
                n
                for n, label in enumerate(decision.problem.labels[index])
                if annotated_value_state(site, label) == hinted_state
            ]
            costs = [cost for option in options if (cost := _extra_seconds(solved, axis, index, option)) is not None]
            location = annotation.loc or site.node.loc
            reason = (
                f"keeping it is {_extra_text(min(costs, default=None))}"
                if options
                else "its op cannot be split that way"
            )
            name = f"%{site.value.name or '?'}"
            yield OverriddenHint(
                name, axis, state_text(hinted_state), f"it {state_text(chosen_state)}", reason, location_text(location)
            )


def _misfit_hints(site: Site) -> Iterator[OverriddenHint]:
    """Yield a lost hint for each sub-axis in a hint that does not nest in the sub-axes of the other annotations."""
    if site.user_sharding is None or site.annotation is None:
        return
    location = location_text(site.annotation.loc or site.node.loc)
    for axis in site.misfits:
        hinted_state = state_text(state_of(site.user_sharding, axis))
        yield OverriddenHint(f"%{site.value.name or '?'}", axis, hinted_state, "it is not", NO_DIVISION, location)


def _extra_seconds(solved: Solved, axis: str, index: int, option: int) -> float | None:
    """Return the extra seconds of the cheapest program in which the site has label `option`, or None if this is
    forbidden.
    """
    decision = solved.decisions[axis]
    costs = np.full(decision.problem.sizes[index], np.inf)
    costs[option] = 0.0
    solution = cheapest(decision.problem.sizes, [*decision.problem.tables, Table((index,), costs)])
    extra_seconds = solution.cost - decision.solution.seconds
    return None if extra_seconds > DEFAULT.propagation.forbidden_seconds / 2 else max(0.0, extra_seconds)


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
