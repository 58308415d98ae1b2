"""List the labels that a site may take along a mesh axis; a label gives the state of each operand and result.

Example, `%h = dot_general %a, %w : f32[64,32], f32[32,96]` on x=4, loops a = 64, b = 96, c = 32 (summed):

    label           %a           %w           %h
    a is split      dim 0        replicated   dim 0
    b is split      replicated   dim 1        dim 1
    c is split      dim 1        dim 0        partial (sum)
    none            replicated   replicated   replicated

Only labels whose states annotations reach are listed: with `%a` annotated [{x}, {}] these are the first and the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_annotation, is_propagation_barrier
from meshgen.ops.classes import GEMMS
from meshgen.ops.rules.rule import Linear
from meshgen.sharding.propagation.pseudo_ops import MANUAL_ENDS
from meshgen.sharding.propagation.reach import Covered, Origins, fits, picks_of, usable_factor
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link, State, state_of


@dataclass(frozen=True)
class Label:
    """A choice for a site along one axis: the states of its operands and results.

    `factor` is the loop that the axis splits. `way` names the operands whose partial values a linear op passes on. Both
    are None if all values are replicated.
    """

    factor: int | None
    way: Linear | None
    operands: tuple[State, ...]
    results: tuple[State, ...]

    @cached_property
    def split_operands(self) -> tuple[int, ...]:
        """Return the indices of the operands that are split."""
        return tuple([index for index, state in enumerate(self.operands) if isinstance(state, int)])

    @cached_property
    def split_results(self) -> tuple[int, ...]:
        """Return the indices of the results that are split."""
        return tuple([index for index, state in enumerate(self.results) if isinstance(state, int)])

    def is_pick(self, site: Site) -> bool:
        """Whether each device contributes the rows of a window that it has, as a partial result, instead of fetching
        the others.
        """
        is_window = self.factor is not None and site.rule.factors[self.factor].kind == "window"
        return is_window and isinstance(self.results[0], str)


def labels_of(
    site: Site, link: Link, origins: dict[Value, Origins], covered: Covered, parts_elsewhere: Callable[[Site, int], int]
) -> list[Label]:
    """Return the labels whose states annotations reach, sharded ones first.

    `parts_elsewhere` returns the number of parts into which the other axes split a loop of a site.
    """
    labels: list[Label] = []
    rule, node = site.rule, site.node
    if site.is_manual(link.axis):
        return [_manual_label(site, link.axis)]
    for factor, loop in enumerate(rule.factors):
        if (
            loop.kind == "whole"
            or not _is_reached(site, factor, origins)
            or not _is_splittable(site, factor, link, parts_elsewhere)
        ):
            continue
        operands, results = rule.places(factor)
        ends: tuple[State, ...] = tuple(loop.reduction if loop.kind == "reduce" else d for d in results)
        label = Label(factor, None, tuple(operands), ends)
        if is_expressible(site, factor, covered):
            labels.append(label)
    labels += _picked(site, link, origins, parts_elsewhere)
    labels += _free_dim_instead_of_contracted(site, link, labels, covered, parts_elsewhere)
    kinds = {state for v in node.operands for state in origins.get(v, {}) if isinstance(state, str)}
    for way in rule.linear:
        for kind in sorted(kinds & set(way.kinds)):
            if any(kind in origins.get(node.operands[i], {}) for i in way.operands):
                operands_ = tuple(kind if i in way.operands else None for i in range(len(node.operands)))
                labels.append(Label(None, way, operands_, (kind,) * len(node.results)))
    annotated_state = site.annotation and state_of(site.annotation.sharding, link.axis)
    if (
        isinstance(annotated_state, int)
        and site.annotation
        and site.annotation.required
        and not _has(site, labels, annotated_state)
    ):
        # The annotated dim has a single row, so no label splits the dim. Add a label, because the annotation requires
        # the split.
        factor = (rule.results or rule.operands)[0][annotated_state][0]
        operands, results = rule.places(factor)
        labels.append(Label(factor, None, tuple(operands), tuple(results)))
    if isinstance(annotated_state, str) and all(
        annotated_state not in (*label.operands, *label.results) for label in labels
    ):
        labels.append(
            Label(None, None, (annotated_state,) * len(node.operands), (annotated_state,) * len(node.results))
        )
    return [*labels, whole_label(site)]


def whole_label(site: Site) -> Label:
    """Return the label with all values replicated."""
    return Label(None, None, (None,) * len(site.node.operands), (None,) * len(site.node.results))


def _manual_label(site: Site, axis: str) -> Label:
    """Return the only label along a manual axis.

    The body is replicated along it; operands and results of the computation have their declared states.
    """
    operands, results = (None,) * len(site.node.operands), (None,) * len(site.node.results)
    if site.annotation is None or site.node.op not in MANUAL_ENDS:
        return Label(None, None, operands, results)
    declared_state = state_of(site.annotation.sharding, axis)
    return (
        Label(None, None, (declared_state,), results)
        if site.annotates_operand
        else Label(None, None, operands, (declared_state,))
    )


def annotated_value_state(site: Site, label: Label) -> State:
    """Return the state that `label` gives to the value that the site's annotation describes."""
    return label.operands[0] if site.annotates_operand else label.results[0]


def follows_annotation(site: Site, state: State, axis: str) -> bool:
    """Whether the value of a site's annotation may have `state` along `axis`: it is the annotated state, or an open
    dim.
    """
    assert site.annotation is not None, "it asks"
    annotated_state, open_dims = state_of(site.annotation.sharding, axis), site.annotation.open_dims
    return state == annotated_state or (
        annotated_state is None and isinstance(state, int) and state < len(open_dims) and open_dims[state]
    )


def constrains_use(producer: Site, user: Site) -> bool:
    """Whether the annotation of `producer` constrains how `user` reads the value.

    Only a required annotation on the value's uses does, and only if the user has no annotation of its own for that
    operand.
    """
    is_bound = is_annotation(producer.node) and producer.annotation is not None and producer.annotation.required
    return (
        is_bound
        and not producer.node.attrs.as_result
        and not (user.annotation is not None and user.annotates_operand)
        and not is_annotation(user.node)
    )


def _picked(
    site: Site, link: Link, origins: dict[Value, Origins], parts_elsewhere: Callable[[Site, int], int]
) -> list[Label]:
    """Return labels for windows that select few rows of a split dim, without fetching rows.

    Each device contributes the rows that it has, and the result is partial. No other axis may split the dim, and no
    option may require another axis for it.
    """
    return [
        Label(pick.window.factor, None, (state,), (pick.kind,))
        for value in site.node.operands
        for state in origins.get(value, {})
        if site.rule.picks and isinstance(state, int)
        for pick in picks_of(site, 0, state, link.size)
        if parts_elsewhere(site, pick.window.factor) == 1
        and not _option_uses_other_axes(site, pick.window.factor, link.axis)
    ]


def _option_uses_other_axes(site: Site, factor: int, axis: str) -> bool:
    """Whether the sharding option of a site splits a loop over other axes than this one."""
    return site.option is not None and any(other != axis for other in site.option[factor])


def _free_dim_instead_of_contracted(
    site: Site, link: Link, labels: list[Label], covered: Covered, parts_elsewhere: Callable[[Site, int], int]
) -> list[Label]:
    """Return at most one label, which splits a free dim of a dot's larger operand instead of its contracted dim.

    Annotations do not reach that dim. It is offered if the result is larger than both operands: then to reshard the
    operands moves less data than to reduce partial sums.
    """
    rule, node = site.rule, site.node
    reached_factors = {label.factor for label in labels if label.factor is not None}
    is_summed = any(rule.factors[factor].kind == "reduce" for factor in reached_factors)
    operand_bytes = [value.type.nbytes for value in node.operands[:2]]
    if node.op not in GEMMS or not is_summed or sum(operand_bytes) > node.result.type.nbytes:
        return []
    larger = operand_bytes.index(max(operand_bytes))
    free = [
        factor
        for factor, loop in enumerate(rule.factors)
        if loop.kind in ("parallel", "indexed") and factor not in reached_factors
        if rule.places(factor)[0][larger] is not None and rule.places(factor)[0][1 - larger] is None
        if _is_splittable(site, factor, link, parts_elsewhere) and is_expressible(site, factor, covered)
    ]
    best = max(free, key=lambda factor: (rule.factors[factor].size, -factor), default=None)
    if best is None:
        return []
    operands, results = rule.places(best)
    return [Label(best, None, tuple(operands), tuple(results))]


def _has(site: Site, labels: list[Label], state: State) -> bool:
    """Whether one of `labels` puts the site's annotated value in `state`."""
    return any(annotated_value_state(site, label) == state for label in labels)


def _is_reached(site: Site, factor: int, origins: dict[Value, Origins]) -> bool:
    operands, results = site.rule.places(factor)
    pairs = [*zip(site.node.operands, operands, strict=True), *zip(site.node.results, results, strict=True)]
    # States of the operand of a propagation barrier may not pass. States of its result account for that already.
    if is_propagation_barrier(site.node):
        pairs = pairs[1:]
    return any(dim is not None and dim in origins.get(value, {}) for value, dim in pairs)


def _is_splittable(site: Site, factor: int, link: Link, parts_elsewhere: Callable[[Site, int], int]) -> bool:
    """Whether the axis may split the factor: evenly, or as a dim of its own whose uneven tiles need not nest.

    Returns False if another axis leaves the rows of the factor partial.
    """
    loop, split = site.rule.factors[factor], parts_elsewhere(site, factor)
    if not split:
        return False
    if loop.size % (link.size * split) == 0:
        return True
    return not (split > 1 and link.nests) and fits(site.rule, factor, loop.size + 1)


def is_expressible(site: Site, factor: int, covered: Covered) -> bool:
    """Whether an axis can split the factor in every dim that contains it, given the splits by other axes."""
    rule = site.rule
    return all(
        usable_factor(rule, dims, d, site, covered) == factor
        for dims in (*rule.operands, *rule.results)
        for d, part in enumerate(dims)
        if factor in part
    )
