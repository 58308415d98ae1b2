"""Describe the edges of values once for all decisions: which sites they join, and what of their costs no decision changes.

Example, `%h` made by site 3, a dot, and read by sites 4 and 7:

    joint   scope (3, 4, 7), kind 12    every layer's dot that is read so has kind 12: equal labels and bytes then make equal tables
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_annotation
from meshgen.sharding.optimizations.own_rows import OwnRows
from meshgen.sharding.propagation.labels import asks_use
from meshgen.sharding.propagation.pseudo_ops import is_barrier_value, is_changed_carry
from meshgen.sharding.propagation.sites import Site

Edge = tuple[Value, tuple[int, int], list[tuple[int, int]]]


class End(NamedTuple):
    """What no decision changes of how a use reads a value.

    Attributes:
        operand: its number.
        times: how often it is resharded.
        weight: of its seconds.
        is_argument: whether it moves a pinned argument.
        is_barrier: whether an optimization barrier reads it.
        is_own: whether devices that have groups of rows read those of their own groups only.
    """

    operand: int
    times: float
    weight: float
    is_argument: bool
    is_barrier: bool
    is_own: bool


class Joint(NamedTuple):
    """An edge; those of one `kind` differ in their sites alone. `scope` has the number of its maker's site, then those of its uses."""

    maker: tuple[int, int]
    uses: list[tuple[int, int]]
    scope: tuple[int, ...]
    kind: int
    ends: tuple[End, ...]
    has_argument: bool
    asking: tuple[tuple[int, int], ...]  # the uses that an annotation of the maker is for


def edges_of(sites: Sequence[Site]) -> list[Edge]:
    """Per value that a site makes and others use: (site, result) that makes it, [(site, operand)] that use it."""
    makers: dict[Value, tuple[int, int]] = {}
    uses: dict[Value, list[tuple[int, int]]] = {}
    for number, site in enumerate(sites):
        for i, value in enumerate(site.node.results):
            makers[value] = (number, i)
        for i, value in enumerate(site.node.operands):
            uses.setdefault(value, []).append((number, i))
    return [(value, makers[value], found) for value, found in uses.items() if value in makers]


def joints_of(sites: Sequence[Site], edges: Sequence[Edge], placed: AbstractSet[Value]) -> list[Joint]:
    """The edges of a program, whose arguments `placed` are pinned."""
    kinds: dict[object, int] = {}
    found: list[Joint] = []
    own = _own_values(sites, edges)
    for value, maker, uses in edges:
        site = sites[maker[0]]
        ends = tuple(
            [_joint_end(site, sites[user], i, is_placed=value in placed, is_own=value in own) for user, i in uses]
        )
        scope = (maker[0], *[user for user, _ in uses])
        kind = kinds.setdefault((maker[1], ends, _pattern(scope)), len(kinds))
        asking = tuple([use for use in uses if asks_use(site, sites[use[0]])]) if is_annotation(site.node) else ()
        found.append(Joint(maker, uses, scope, kind, ends, any(end.is_argument for end in ends), asking))
    return found


def _pattern(scope: Sequence[int]) -> tuple[int, ...]:
    """The order of the sites of a scope, by which equal tables are turned alike."""
    rank = {site: number for number, site in enumerate(sorted(set(scope)))}
    return tuple([rank[site] for site in scope])


def _own_values(sites: Sequence[Site], edges: Sequence[Edge]) -> AbstractSet[Value]:
    """The values of which devices with groups of rows read those of their own groups only (`optimizations/own_rows.py`)."""
    if not any(site.node.op == "ragged_dot" for site in sites):
        return frozenset()
    makers = {value: sites[maker].node for value, (maker, _), _ in edges}
    uses = {value: [(sites[user].node, number) for user, number in found] for value, _, found in edges}
    rows = OwnRows(makers.get, lambda value: uses.get(value, ()))
    products = ((value, rows.product_of(value)) for value in makers if value.type.rank)
    return {value for value, product in products if product and rows.are_read_alone(value, product)}


def _joint_end(maker: Site, user: Site, operand: int, *, is_placed: bool, is_own: bool) -> End:
    """A value that a loop changes is resharded in every trip, one that it only reads once before it."""
    weight = user.times / maker.times if is_changed_carry(maker.node) else 1.0
    weight *= DEFAULT.propagation.behind if is_annotation(user.node) and user.node.attrs.as_result else 1.0
    weight *= DEFAULT.propagation.behind if is_barrier_value(user.node) else 1.0  # of equals what reshards behind it
    is_argument, is_barrier = is_placed and _is_at_rest(user, operand), is_barrier_value(user.node)
    return End(operand, maker.times, weight, is_argument, is_barrier, is_own)


def _is_at_rest(site: Site, operand: int) -> bool:
    """Whether an operand can keep its sharding: not if windows of several rows cross its tiles in every step."""
    return not any(window.operand == operand and window.width > 1 for window in site.rule.windows)
