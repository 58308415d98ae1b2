"""Edges of values, described once and reused by the decision along every mesh axis.

An edge (`Joint`) connects the site that produces a value with the sites that use it. Example, `%h` made by site 3, a
dot, and read by sites 4 and 7:

    joint   scope (3, 4, 7), kind 12

Edges of repeated layers have the same kind, because their sites have the same labels and bytes. They share cost tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_annotation
from meshgen.sharding.optimizations.group_row_uses import GroupRowUses
from meshgen.sharding.propagation.labels import constrains_use
from meshgen.sharding.propagation.pseudo_ops import is_barrier_value, is_changed_carry
from meshgen.sharding.propagation.sites import Site

Edge = tuple[Value, tuple[int, int], list[tuple[int, int]]]


class End(NamedTuple):
    """Properties of one use of a value that do not depend on the decisions of propagation.

    Attributes:
        operand: index of the operand.
        times: number of reshards per step.
        weight: factor on the seconds of a reshard.
        is_argument: whether a reshard moves a pinned argument.
        is_barrier: whether an optimization barrier reads the value.
        is_own: whether each device that holds groups of rows reads only the rows of its own groups.
    """

    operand: int
    times: float
    weight: float
    is_argument: bool
    is_barrier: bool
    is_own: bool


class Joint(NamedTuple):
    """An edge: a value, its producer and its uses.

    `scope` lists the producer's site, then the site of each use. Edges of one `kind` differ only in their sites.
    """

    producer: tuple[int, int]
    uses: list[tuple[int, int]]
    scope: tuple[int, ...]
    kind: int
    ends: tuple[End, ...]
    has_argument: bool
    constrained_uses: tuple[
        tuple[int, int], ...
    ]  # uses that the producer's annotation on the uses of its result constrains


def edges_of(sites: Sequence[Site]) -> list[Edge]:
    """Return the values that one site produces and others use.

    Each comes with its producer as (site, result) and its uses as [(site, operand)].
    """
    producers: dict[Value, tuple[int, int]] = {}
    uses: dict[Value, list[tuple[int, int]]] = {}
    for index, site in enumerate(sites):
        for i, value in enumerate(site.node.results):
            producers[value] = (index, i)
        for i, value in enumerate(site.node.operands):
            uses.setdefault(value, []).append((index, i))
    return [(value, producers[value], value_uses) for value, value_uses in uses.items() if value in producers]


def joints_of(sites: Sequence[Site], edges: Sequence[Edge], placed: AbstractSet[Value]) -> list[Joint]:
    """Return the edges of a program; the arguments in `placed` are pinned."""
    kinds: dict[object, int] = {}
    joints: list[Joint] = []
    own_values = _own_values(sites, edges)
    for value, producer, uses in edges:
        site = sites[producer[0]]
        ends = tuple(
            [
                _joint_end(site, sites[user], i, is_placed=value in placed, is_own=value in own_values)
                for user, i in uses
            ]
        )
        scope = (producer[0], *[user for user, _ in uses])
        kind = kinds.setdefault((producer[1], ends, _pattern(scope)), len(kinds))
        constrained_uses = (
            tuple([use for use in uses if constrains_use(site, sites[use[0]])]) if is_annotation(site.node) else ()
        )
        joints.append(Joint(producer, uses, scope, kind, ends, any(end.is_argument for end in ends), constrained_uses))
    return joints


def _pattern(scope: Sequence[int]) -> tuple[int, ...]:
    """Return the rank of each site among the sites of the scope. Tables of edges with equal patterns are transposed
    alike.
    """
    rank = {site: index for index, site in enumerate(sorted(set(scope)))}
    return tuple([rank[site] for site in scope])


def _own_values(sites: Sequence[Site], edges: Sequence[Edge]) -> AbstractSet[Value]:
    """Return the values of which each device reads only the rows of its own groups of ragged dots (see `GroupRowUses`)."""
    if not any(site.node.op == "ragged_dot" for site in sites):
        return frozenset()
    producers = {value: sites[producer].node for value, (producer, _), _ in edges}
    uses = {value: [(sites[user].node, operand) for user, operand in value_uses] for value, _, value_uses in edges}
    rows = GroupRowUses(producers.get, lambda value: uses.get(value, ()))
    ragged_dots = ((value, rows.product_of(value)) for value in producers if value.type.rank)
    return {value for value, ragged_dot in ragged_dots if ragged_dot and rows.has_only_group_users(value, ragged_dot)}


def _joint_end(producer: Site, user: Site, operand: int, *, is_placed: bool, is_own: bool) -> End:
    """Describe one use.

    A value that a loop changes is resharded in every iteration, other values once before the loop.
    """
    weight = user.times / producer.times if is_changed_carry(producer.node) else 1.0
    weight *= DEFAULT.propagation.behind if is_annotation(user.node) and user.node.attrs.as_result else 1.0
    # Among plans of equal cost, prefer to reshard after an optimization barrier.
    weight *= DEFAULT.propagation.behind if is_barrier_value(user.node) else 1.0
    is_argument, is_barrier = is_placed and _keeps_sharding(user, operand), is_barrier_value(user.node)
    return End(operand, producer.times, weight, is_argument, is_barrier, is_own)


def _keeps_sharding(site: Site, operand: int) -> bool:
    """Whether an operand can keep its sharding without a halo exchange in every step, because it has no windows."""
    return not any(window.operand == operand and window.width > 1 for window in site.rule.windows)
