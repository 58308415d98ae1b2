"""Refuse a program whose required annotations or options propagation could not keep (law 2): none is ever dropped.

Example, on x=4: `%r = sort %v along dim 0 : f32[64,32]` with an option that splits loop a, its rows, over x:

    MG0206   loop a (64) of 'sort' cannot be split over axis 'x' as its option requires: it must be whole
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.errors import Diagnostic
from meshgen.ir.axis_parts import NO_DIVISION
from meshgen.sharding.propagation.labels import Label, asked_face, asks_use
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import state_of


def unkept(sites: Sequence[Site], labels: Mapping[str, Sequence[Label]]) -> list[Diagnostic]:
    """Per-op options and required annotations that the labels of the sites (per axis) do not follow.

    Splitting a dim of at most one row is not a fault: it has nothing to split.
    """
    found: list[Diagnostic] = []
    for number, site in enumerate(sites):
        for axis, chosen in labels.items():
            text = _option_fault(site, chosen[number], axis) or _annotation_fault(site, chosen[number], axis)
            if text:
                hint = "choose another loop or dim, or leave it to propagation"
                where = site.annotation.loc if site.annotation else site.node.loc
                found.append(Diagnostic("MG0206", text, where, hint=hint))
    return found


def unreadable(sites: Sequence[Site]) -> list[Diagnostic]:
    """Annotations for users that no user can follow: they factor an axis differently from the rest of the program."""
    found: list[Diagnostic] = []
    for maker in (site for site in sites if site.misfits):
        if any(asks_use(maker, user) and maker.value in user.node.operands for user in sites):
            text = f"annotation {maker.asked} of {maker.value.type} cannot be kept by its users: {NO_DIVISION}"
            hint = f"leave out {', '.join(maker.misfits)}, or factor the axis alike in all annotations"
            where = maker.annotation.loc if maker.annotation else maker.node.loc
            found.append(Diagnostic("MG0206", text, where, hint=hint))
    return found


def _option_fault(site: Site, label: Label, axis: str) -> str:
    asked = next((factor for factor, axes in enumerate(site.option or ()) if axis in axes), None)
    if asked is None or label.factor == asked or site.rule.factors[asked].size <= 1:
        return ""
    loop = site.rule.factors[asked]
    why = "it must be whole" if loop.kind == "whole" else "tiles of its dims would not be tiles of the result's"
    return f"loop {loop.name} ({loop.size}) of '{site.node.op}' cannot be split over axis '{axis}' as its option requires: {why}"


def _annotation_fault(site: Site, label: Label, axis: str) -> str:
    if site.annotation is None or not site.annotation.required:
        return ""
    asked, got = state_of(site.annotation.sharding, axis), asked_face(site, label)
    if asked is None or asked == got or (isinstance(asked, int) and site.value.type.sizes[asked] <= 1):
        return ""
    what = (
        f"dim {asked} cannot be split over" if isinstance(asked, int) else f"the value cannot be a partial {asked} over"
    )
    return f"annotation {site.annotation.sharding} of {site.value.type} cannot be kept: {what} axis '{axis}'"
