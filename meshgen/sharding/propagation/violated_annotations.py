"""Refuse a program whose required annotations or options propagation cannot follow: none is ever dropped (law 2).

Example, on x=4: `%r = sort %v along dim 0 : f32[64,32]` with an option that splits loop a, its rows, over x:

    MG0206   loop a (64) of 'sort' cannot be split over axis 'x' as its option requires: it must be whole
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.errors import Diagnostic
from meshgen.ir.axis_parts import NO_DIVISION
from meshgen.sharding.propagation.labels import Label, annotated_value_state, constrains_use
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import state_of


def violated_annotations(sites: Sequence[Site], labels: Mapping[str, Sequence[Label]]) -> list[Diagnostic]:
    """Return faults for the per-op options and required annotations that `labels` (per axis, one per site) violate.

    Splitting a dim of size 0 or 1 is not a fault: there is nothing to split.
    """
    faults: list[Diagnostic] = []
    for index, site in enumerate(sites):
        for axis, axis_labels in labels.items():
            text = _option_fault(site, axis_labels[index], axis) or _annotation_fault(site, axis_labels[index], axis)
            if text:
                hint = "choose another loop or dim, or leave it to propagation"
                where = site.annotation.loc if site.annotation else site.node.loc
                faults.append(Diagnostic("MG0206", text, where, hint=hint))
    return faults


def unusable_annotations(sites: Sequence[Site]) -> list[Diagnostic]:
    """Return faults for annotations on a value's uses that no user can follow.

    Such an annotation factors an axis differently from the rest of the program.
    """
    faults: list[Diagnostic] = []
    for producer in (site for site in sites if site.misfits):
        if any(constrains_use(producer, user) and producer.value in user.node.operands for user in sites):
            annotation = f"annotation {producer.user_sharding} of {producer.value.type}"
            text = f"{annotation} cannot be kept by its users: {NO_DIVISION}"
            hint = f"leave out {', '.join(producer.misfits)}, or factor the axis alike in all annotations"
            where = producer.annotation.loc if producer.annotation else producer.node.loc
            faults.append(Diagnostic("MG0206", text, where, hint=hint))
    return faults


def _option_fault(site: Site, label: Label, axis: str) -> str:
    required_factor = next((factor for factor, axes in enumerate(site.option or ()) if axis in axes), None)
    if required_factor is None or label.factor == required_factor or site.rule.factors[required_factor].size <= 1:
        return ""
    loop = site.rule.factors[required_factor]
    why = "it must be whole" if loop.kind == "whole" else "tiles of its dims would not be tiles of the result's"
    return f"loop {loop.name} ({loop.size}) of '{site.node.op}' cannot be split over axis '{axis}' as its option requires: {why}"


def _annotation_fault(site: Site, label: Label, axis: str) -> str:
    if site.annotation is None or not site.annotation.required:
        return ""
    required_state, chosen_state = state_of(site.annotation.sharding, axis), annotated_value_state(site, label)
    if (
        required_state is None
        or required_state == chosen_state
        or (isinstance(required_state, int) and site.value.type.sizes[required_state] <= 1)
    ):
        return ""
    refusal = (
        f"dim {required_state} cannot be split over"
        if isinstance(required_state, int)
        else f"the value cannot be a partial {required_state} over"
    )
    return f"annotation {site.annotation.sharding} of {site.value.type} cannot be kept: {refusal} axis '{axis}'"
