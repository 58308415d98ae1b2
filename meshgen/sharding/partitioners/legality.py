"""Whether a node's shardings are ones that its rule allows: then local computation on tiles is right.

Checked for every node before it is partitioned, whether its shardings were propagated or written by hand: dims that share a factor are
split by the same axes, whole factors are not split, a split of reduced factors leaves a partial result of
that kind, and partial operands meet only ops that are linear in them.
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
    """A fault of the shardings around and in control flow; None if each value has one sharding throughout."""
    repeats = is_loop(node)
    decided = [node.regions[0].outputs[0]] if repeats else node.operands[:1]
    if any(not sharding_of(value).canonical(mesh).is_replicated for value in decided):
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
    """A fault of the shardings of an optimization barrier; None if each result has the sharding of its operand."""
    for number, (value, result) in enumerate(zip(node.operands, node.results, strict=True)):
        if not same_layout(sharding_of(value), sharding_of(result), value.type, mesh):
            return f"operand {number} has sharding {sharding_of(value)}, and result {number} {sharding_of(result)}"
    return None


def find_fault(node: Node, rule: Rule, mesh: Mesh) -> str | None:
    """A fault of the node's shardings in one sentence; None if they are legal."""
    operands = [merged(sharding_of(value), mesh) for value in node.operands]
    results = [merged(sharding_of(value), mesh) for value in node.results]
    if any(s.halo or any(s.offsets) for s in (*operands, *results)):
        return _irregular_fault(node, rule, operands, results)
    ends = [*zip(rule.operands, operands, strict=True), *zip(rule.results, results, strict=True)]
    values = [*node.operands, *node.results]
    layouts: list[_Layout] = []
    for number, (dims, sharding) in enumerate(ends):
        name = f"operand {number}" if number < len(operands) else f"result {number - len(operands)}"
        layout = _layout(name, rule, dims, values[number], sharding, mesh)
        if isinstance(layout, str):
            return layout
        layouts.append(layout)
    refs = [ref for layout in layouts for ref in layout.refs]
    parts = AxisParts.of(mesh, refs)
    if not parts.fits(*refs):
        return f"its values are split over {list(dict.fromkeys(refs))}: {NO_DIVISION}"
    return _Check(rule, layouts, len(operands), parts).find_fault()


def _irregular_fault(node: Node, rule: Rule, operands: Sequence[Sharding], results: Sequence[Sharding]) -> str | None:
    """A fault of halos and offsets: only element-wise ops whose operands all have the same sharding carry them."""
    identity = tuple((d,) for d in range(results[0].rank))
    ends = [*zip(rule.operands, operands, strict=True), *zip(rule.results, results, strict=True)]
    alike = all(sharding == results[0] and dims == identity for dims, sharding in ends)
    if alike and not results[0].partial and node.op != "iota":
        return None
    return f"it cannot work on unequal tiles or halos ({', '.join(map(str, (*operands, *results)))})"


class _Layout(NamedTuple):
    """Axes of each factor that a value has, major to minor, and the kind of each axis that it is partial over."""

    name: str
    dims: DimMap
    factors: dict[int, tuple[str, ...]]
    partial: dict[str, str]

    @property
    def refs(self) -> list[str]:
        return [*self.partial, *(axis for axes in self.factors.values() for axis in axes)]


def _layout(name: str, rule: Rule, dims: DimMap, value: Value, sharding: Sharding, mesh: Mesh) -> _Layout | str:
    found: dict[int, tuple[str, ...]] = {}
    for dim, factors in enumerate(dims):
        axes = sharding.dims[dim]
        if axes and not factors:
            return f"dim {dim} of {name} is split over {list(axes)}, but is read whole"
        shares = _distribute(axes, [rule.factors[f].size for f in factors], mesh)
        if shares is None:
            sizes = " x ".join(str(rule.factors[f].size) for f in factors)
            rows = value.type.shape[dim]
            return (
                f"dim {dim} of {name} ({rows} = {sizes} rows) is split over {list(axes)}, which cuts across its factors"
            )
        found.update(zip(factors, shares, strict=True))
    return _Layout(name, dims, found, dict(sharding.partial))


def _distribute(axes: tuple[str, ...], sizes: Sequence[int], mesh: Mesh) -> list[tuple[str, ...]] | None:
    """The axes of a dim dealt to its factors, major to minor; an axis that covers one factor goes on in the next.

    None where a factor would be split unevenly, or a minor one before the major one is used up: tiles of the dim
    would not be tiles of the factors. A factor that is a dim by itself may be split unevenly.
    """
    if len(sizes) == 1:
        return [axes]
    shares: list[list[str]] = [[] for _ in sizes]
    place, room = 0, sizes[0] if sizes else 1
    rest = list(axes)
    while rest:
        while room == 1 and place + 1 < len(sizes):
            place += 1
            room = sizes[place]
        ref = rest.pop(0)
        size = mesh.axis_size(ref)
        if room % size and size % room == 0 and room > 1:
            first, second = _halves(ref, room, mesh)
            rest.insert(0, second)
            ref, size = first, room
        if room % size:
            return None
        shares[place].append(ref)
        room //= size
    return [tuple(share) for share in shares]


def _halves(ref: str, major: int, mesh: Mesh) -> tuple[str, str]:
    """An axis as its part of size `major` and the part below that."""
    name, pre, _ = split_ref(ref)
    return f"{name}:({pre}){major}", f"{name}:({pre * major}){mesh.axis_size(ref) // major}"


class _Check:
    """Compares the layouts of all values of a node, axis by axis; axes are cut so that no two overlap in part."""

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
        for number, loop in enumerate(self.rule.factors):
            having = [x for x in self.layouts if number in x.factors and not self._is_picked(number, x)]
            axes = having[0].factors[number]
            yield from (
                f"{x.name} splits factor {loop.name} over {list(x.factors[number])}, but {having[0].name} over {list(axes)}"
                for x in having
                if x.factors[number] != axes
            )
            if axes and loop.kind == "whole":
                yield f"factor {loop.name} must be whole, but is split over {list(axes)}"
            for axis in axes:
                if axis in owners:
                    other = self.rule.factors[owners[axis]].name
                    yield f"axis '{axis}' splits both factor {other} and factor {loop.name}"
                owners[axis] = number
        for axis in self.axes:
            yield from self._partial_faults(axis, owners.get(axis))

    def _is_picked(self, number: int, layout: _Layout) -> bool:
        """Whether the result is partial because rows of a window stay on the devices that have them."""
        if layout.factors[number] or number not in (pick.window.factor for pick in self.rule.picks):
            return False
        axes = next(x.factors[number] for x in self.layouts if number in x.factors)
        return layout in self.layouts[self.count :] and all(layout.partial.get(a) == self._due(number) for a in axes)

    def _due(self, number: int) -> str | None:
        """The kind of partial result that a split of the factor makes; for a window if its rows stay in place."""
        loop = self.rule.factors[number]
        kinds = {pick.window.factor: pick.kind for pick in self.rule.picks}
        return loop.reduction if loop.kind == "reduce" else kinds.get(number)

    def _partial_faults(self, axis: str, owner: int | None) -> Iterator[str]:
        """A fault of an axis over which a value is partial: a reduction or linear operands must make it so."""
        given = {i: x.partial[axis] for i, x in enumerate(self.layouts[: self.count]) if axis in x.partial}
        made = [x.partial.get(axis) for x in self.layouts[self.count :]]
        if owner is not None:
            loop = self.rule.factors[owner]
            is_left = loop.kind == "reduce" or any(
                owner in x.factors and self._is_picked(owner, x) for x in self.layouts
            )
            due = self._due(owner) if is_left else None
            if given or any(kind != due for kind in made):
                yield f"axis '{axis}' splits factor {loop.name}, so the result must be {_partial(due)}, not {_partial(next((k for k in made if k != due), due))}"
            return
        kinds = list(dict.fromkeys(given.values()))
        if not given:
            if any(made):
                yield f"no operand or factor makes the result partial over '{axis}'"
        elif len(kinds) > 1 or not any(
            given.keys() == set(w.operands) and kinds[0] in w.kinds for w in self.rule.linear
        ):
            names = ", ".join(f"operand {i} ({kind})" for i, kind in given.items())
            yield f"it is not linear in what is partial over '{axis}': {names}"
        elif any(kind != kinds[0] for kind in made):
            yield f"operands are partial over '{axis}' ({kinds[0]}), but the result is {_partial(made[0])}"


def _partial(kind: str | None) -> str:
    return f"partial ({kind})" if kind else "whole"
