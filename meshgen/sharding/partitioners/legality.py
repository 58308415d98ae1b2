"""Check that a node's shardings are allowed by its sharding rule, so that computing on tiles is correct.

Every node is checked before it is partitioned, whether its shardings were propagated or written by hand. Dims that
share a factor must be split over the same axes, factors of kind `whole` must not be split, a split reduced factor must
leave a partial result of its kind, and partial operands may only be used by ops that are linear in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from meshgen.ir.axis_parts import NO_DIVISION, AxisParts, merged
from meshgen.ir.graph import Node, Value
from meshgen.ir.predicates import is_loop
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.rules.rule import DimMap, Rule
from meshgen.sharding.partitioners.registry import sharding_of
from meshgen.sharding.reshard.plan import same_layout
from meshgen.spec import Sharding


def find_control_fault(node: Node, mesh: Mesh) -> str | None:
    """Return a fault in the shardings around and inside control flow, or None if each value has the same sharding
    inside and outside.
    """
    repeats = is_loop(node)
    predicates = [node.regions[0].outputs[0]] if repeats else node.operands[:1]
    if any(not sharding_of(value).canonical(mesh).is_replicated for value in predicates):
        return "the predicate must be replicated, or devices would take different branches"
    carried = node.operands if repeats else node.operands[1:]
    pairs = [pair for body in node.regions for pair in zip(body.inputs, carried, strict=False)]
    bodies = node.regions[1:] if repeats else node.regions
    pairs += [pair for body in bodies for pair in zip(body.outputs, node.results, strict=False)]
    pairs += zip(node.operands, node.results, strict=True) if repeats else ()
    for inner, outer in pairs:
        if not same_layout(sharding_of(inner), sharding_of(outer), inner.type, mesh):
            return f"a value has sharding {sharding_of(inner)} in it and {sharding_of(outer)} around it"
    return None


def find_barrier_fault(node: Node, mesh: Mesh) -> str | None:
    """Return a fault in the shardings of an optimization barrier, or None if each result has the sharding of its
    operand.
    """
    for index, (value, result) in enumerate(zip(node.operands, node.results, strict=True)):
        if not same_layout(sharding_of(value), sharding_of(result), value.type, mesh):
            return f"operand {index} has sharding {sharding_of(value)}, and result {index} {sharding_of(result)}"
    return None


def find_fault(node: Node, rule: Rule, mesh: Mesh) -> str | None:
    """Return a fault in the node's shardings as one sentence, or None if they are legal."""
    operands = [merged(sharding_of(value), mesh) for value in node.operands]
    results = [merged(sharding_of(value), mesh) for value in node.results]
    if any(s.halo or any(s.offsets) for s in (*operands, *results)):
        return _irregular_fault(node, rule, operands, results)
    ends = [*zip(rule.operands, operands, strict=True), *zip(rule.results, results, strict=True)]
    values = [*node.operands, *node.results]
    layouts: list[_Layout] = []
    for index, (dims, sharding) in enumerate(ends):
        name = f"operand {index}" if index < len(operands) else f"result {index - len(operands)}"
        layout = _layout(name, rule, dims, values[index], sharding, mesh)
        if isinstance(layout, str):
            return layout
        layouts.append(layout)
    refs = [ref for layout in layouts for ref in layout.refs]
    parts = AxisParts.of(mesh, refs)
    if not parts.fits(*refs):
        return f"its values are split over {list(dict.fromkeys(refs))}: {NO_DIVISION}"
    return _Check(rule, layouts, len(operands), parts).find_fault()


def _irregular_fault(node: Node, rule: Rule, operands: Sequence[Sharding], results: Sequence[Sharding]) -> str | None:
    """Return a fault in the halos or offsets of a node's shardings, or None if they are legal.

    Halos and offsets are allowed only on element-wise ops with equal shardings on all operands.
    """
    identity = tuple((d,) for d in range(results[0].rank))
    ends = [*zip(rule.operands, operands, strict=True), *zip(rule.results, results, strict=True)]
    alike = all(sharding == results[0] and dims == identity for dims, sharding in ends)
    if alike and not results[0].partial and node.op != "iota":
        return None
    return f"it cannot work on unequal tiles or halos ({', '.join(map(str, (*operands, *results)))})"


class _Layout(NamedTuple):
    """The sharding of one value in terms of factors.

    Attributes:
        factors: the mesh axes that split each factor, major to minor.
        partial: the reduction kind for each axis that the value is partial over.
    """

    name: str
    dims: DimMap
    factors: dict[int, tuple[str, ...]]
    partial: dict[str, str]

    @property
    def refs(self) -> list[str]:
        return [*self.partial, *(axis for axes in self.factors.values() for axis in axes)]


def _layout(name: str, rule: Rule, dims: DimMap, value: Value, sharding: Sharding, mesh: Mesh) -> _Layout | str:
    axes_by_factor: dict[int, tuple[str, ...]] = {}
    for dim, factors in enumerate(dims):
        axes = sharding.dims[dim]
        if axes and not factors:
            return f"dim {dim} of {name} is split over {list(axes)}, but the op reads all of its rows"
        shares = _distribute(axes, [rule.factors[f].size for f in factors], mesh)
        if shares is None:
            sizes = " x ".join(str(rule.factors[f].size) for f in factors)
            rows = value.type.shape[dim]
            return (
                f"dim {dim} of {name} ({rows} = {sizes} rows) is split over {list(axes)}, which cuts across its factors"
            )
        axes_by_factor.update(zip(factors, shares, strict=True))
    return _Layout(name, dims, axes_by_factor, dict(sharding.partial))


def _distribute(axes: tuple[str, ...], sizes: Sequence[int], mesh: Mesh) -> list[tuple[str, ...]] | None:
    """Distribute the mesh axes of a dim over its factors, major to minor. An axis that exceeds a factor continues in
    the next one.

    Returns None if a factor would be split unevenly, or a minor factor before the major one is fully split: the tiles
    of the dim would then not be tiles of the factors. A factor that is an entire dim may be split unevenly.
    """
    if len(sizes) == 1:
        return [axes]
    shares: list[list[str]] = [[] for _ in sizes]
    position, room = 0, sizes[0] if sizes else 1
    remaining = list(axes)
    while remaining:
        while room == 1 and position + 1 < len(sizes):
            position += 1
            room = sizes[position]
        ref = remaining.pop(0)
        size = mesh.axis_size(ref)
        if room % size and size % room == 0 and room > 1:
            first, second = _split_axis(ref, room, mesh)
            remaining.insert(0, second)
            ref, size = first, room
        if room % size:
            return None
        shares[position].append(ref)
        room //= size
    return [tuple(share) for share in shares]


def _split_axis(ref: str, major: int, mesh: Mesh) -> tuple[str, str]:
    """Return an axis as two sub-axes: the major part of size `major`, and the minor rest."""
    name, pre, _ = split_ref(ref)
    return f"{name}:({pre}){major}", f"{name}:({pre * major}){mesh.axis_size(ref) // major}"


class _Check:
    """Compares the layouts of all values of a node, axis by axis. Axes are split so that no two overlap partially."""

    def __init__(self, rule: Rule, layouts: Sequence[_Layout], operands: int, parts: AxisParts) -> None:
        self.rule, self.count = rule, operands
        self.layouts = [
            _Layout(
                x.name,
                x.dims,
                {f: parts.refine(axes) for f, axes in x.factors.items()},
                {part: kind for axis, kind in x.partial.items() for part in parts.refine((axis,))},
            )
            for x in layouts
        ]
        self.axes = list(dict.fromkeys(parts.refine([ref for x in layouts for ref in x.refs])))

    def find_fault(self) -> str | None:
        return next(self._faults(), None)

    def _faults(self) -> Iterator[str]:
        owners: dict[str, int] = {}
        for index, loop in enumerate(self.rule.factors):
            layouts = [x for x in self.layouts if index in x.factors and not self._is_picked(index, x)]
            axes = layouts[0].factors[index]
            yield from (
                f"{x.name} splits factor {loop.name} over {list(x.factors[index])}, but {layouts[0].name} over {list(axes)}"
                for x in layouts
                if x.factors[index] != axes
            )
            if axes and loop.kind == "whole":
                yield f"factor {loop.name} must not be split, but is split over {list(axes)}"
            for axis in axes:
                if axis in owners:
                    other = self.rule.factors[owners[axis]].name
                    yield f"axis '{axis}' splits both factor {other} and factor {loop.name}"
                owners[axis] = index
        for axis in self.axes:
            yield from self._partial_faults(axis, owners.get(axis))

    def _is_picked(self, number: int, layout: _Layout) -> bool:
        """Whether `layout` is that of a result which is partial because each row of a window stays on the device that
        has it.
        """
        if layout.factors[number] or number not in (pick.window.factor for pick in self.rule.picks):
            return False
        axes = next(x.factors[number] for x in self.layouts if number in x.factors)
        return layout in self.layouts[self.count :] and all(
            layout.partial.get(a) == self._partial_kind(number) for a in axes
        )

    def _partial_kind(self, number: int) -> str | None:
        """Return the kind of the partial result if factor `number` is split, or None if the result is complete.

        A reduced factor has the kind of its reduction. A windowed factor has a kind if its rows are not fetched, so
        that each device contributes the rows that it has.
        """
        loop = self.rule.factors[number]
        kinds = {pick.window.factor: pick.kind for pick in self.rule.picks}
        return loop.reduction if loop.kind == "reduce" else kinds.get(number)

    def _partial_faults(self, axis: str, owner: int | None) -> Iterator[str]:
        """Yield faults in the partial values over `axis`: only a split reduction or a linear op may make the result
        partial.
        """
        operand_kinds = {i: x.partial[axis] for i, x in enumerate(self.layouts[: self.count]) if axis in x.partial}
        result_kinds = [x.partial.get(axis) for x in self.layouts[self.count :]]
        if owner is not None:
            loop = self.rule.factors[owner]
            is_left = loop.kind == "reduce" or any(
                owner in x.factors and self._is_picked(owner, x) for x in self.layouts
            )
            due = self._partial_kind(owner) if is_left else None
            if operand_kinds or any(kind != due for kind in result_kinds):
                yield f"axis '{axis}' splits factor {loop.name}, so the result must be {_partial(due)}, not {_partial(next((k for k in result_kinds if k != due), due))}"
            return
        kinds = list(dict.fromkeys(operand_kinds.values()))
        if not operand_kinds:
            if any(result_kinds):
                yield f"no operand or factor makes the result partial over '{axis}'"
        elif len(kinds) > 1 or not any(
            operand_kinds.keys() == set(w.operands) and kinds[0] in w.kinds for w in self.rule.linear
        ):
            names = ", ".join(f"operand {i} ({kind})" for i, kind in operand_kinds.items())
            yield f"it is not linear in what is partial over '{axis}': {names}"
        elif any(kind != kinds[0] for kind in result_kinds):
            yield f"operands are partial over '{axis}' ({kinds[0]}), but the result is {_partial(result_kinds[0])}"


def _partial(kind: str | None) -> str:
    return f"partial ({kind})" if kind else "complete"
