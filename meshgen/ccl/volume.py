"""Bytes of collectives as formulas in device counts, open tensor sizes and trips of loops: `2*(n_tp-1)/n_tp * 4*x_0`.

`n_tp` is the number of devices along axis `tp`, `x_0` the size of dim 0 of input `x` where the program leaves it open,
`trips_12` how often the loop on line 12 runs where that is not known; `ceil` rounds up. A formula is a sum of products,
holds for the program as it was planned (for other sizes another plan may be cheaper), and evaluates to what
`ring_bytes` says. What permutes, re-tiles and halo exchanges move depends on which rows are where:
`moved(8 x 12: [{x}, {}] -> [{}, {x}])` are the elements that the busiest device sends or receives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from meshgen.ccl.cost import LOCAL_OPS, TRANSFERS, group_axes, ring_bytes, transfer_ends
from meshgen.ccl.exchange import exchange
from meshgen.ir.graph import TensorType, Value
from meshgen.ir.symbols import Expr
from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding

Sizes = Mapping[str, int]  # open sizes of dims, and trips of loops, by name
NO_SIZES: Sizes = {}


def size_text(size: int) -> str:
    """A size by its names; a sum in brackets."""
    text = str(Expr.of(size))
    return f"({text})" if " " in text else text


@dataclass(frozen=True)
class Devices:
    """The devices in a group: a product of axes; parts of axes have a known size."""

    axes: tuple[str, ...]
    fixed: int = 1

    @staticmethod
    def over(refs: Iterable[str]) -> Devices:
        names, sizes = [], []
        for ref in refs:
            name, _, size = split_ref(ref)
            names += [name] if size is None else []
            sizes += [] if size is None else [size]
        return Devices(tuple(names), math.prod(sizes))

    def at(self, mesh: Mesh) -> int:
        return self.fixed * mesh.group_size(self.axes)

    def __str__(self) -> str:
        words = [str(self.fixed)] * (self.fixed != 1 or not self.axes) + [f"n_{axis}" for axis in self.axes]
        return "*".join(words)

    @property
    def below(self) -> str:
        """As a denominator."""
        return str(self) if len(self.axes) + (self.fixed != 1) <= 1 else f"({self})"


@dataclass(frozen=True)
class Size:
    """Rows of a dim in a device's buffer: `size` split over groups, one after the other, and a halo."""

    size: int
    groups: tuple[Devices, ...] = ()
    halo: int = 0

    def at(self, mesh: Mesh, sizes: Sizes = NO_SIZES) -> int:
        rows = Expr.of(self.size).at(sizes) if sizes else int(self.size)
        for group in self.groups:
            rows = -(-rows // group.at(mesh))
        return rows + self.halo

    @property
    def known(self) -> int | None:
        """The number, where it depends on no axis and no open size."""
        is_open = Expr.of(self.size).number is None or any(group.axes for group in self.groups)
        return None if is_open else self.at(Mesh(()))

    def __str__(self) -> str:
        text = size_text(self.size)
        for group in self.groups:
            text = f"ceil({text}/{group.below})"
        return f"({text}+{self.halo})" if self.halo else text


@dataclass(frozen=True)
class Moved:
    """Elements that the busiest device sends or receives to go from one sharding to another; counted on each mesh."""

    source: Sharding
    target: Sharding
    shape: tuple[Size, ...]

    def at(self, mesh: Mesh, sizes: Sizes = NO_SIZES) -> int:
        return exchange(self.source, self.target, tuple(size.at(mesh, sizes) for size in self.shape), mesh).elements

    @property
    def known(self) -> None:
        return None

    def __str__(self) -> str:
        return f"moved({' x '.join(map(str, self.shape))}: {self.source} -> {self.target})"


Rows = Size | Moved


@dataclass(frozen=True)
class Product:
    """`times * share * constant * rows...`; the share is what a ring of the group moves of its bytes."""

    constant: int
    rows: tuple[Rows, ...] = ()
    group: Devices | None = None
    share: str = ""  # "", "n-1", "2(n-1)/n" or "n>1" of the group

    def at(self, mesh: Mesh, sizes: Sizes = NO_SIZES) -> Fraction:
        whole = Fraction(self.constant * math.prod(size.at(mesh, sizes) for size in self.rows))
        if self.group is None:
            return whole
        count = self.group.at(mesh)
        if self.share == "n>1":
            return whole * min(count - 1, 1)
        return whole * (count - 1) * (Fraction(2, count) if self.share == "2(n-1)/n" else 1)

    @property
    def factors(self) -> list[str]:
        """The factors in which axes occur."""
        found = [str(size) for size in self.rows]
        if self.group is None:
            return found
        if not self.group.axes:
            share = Product(1, (), self.group, self.share).at(Mesh(()))
            return [str(share)] * (share != 1) + found
        less = f"({self.group}-1)"
        shares = {"2(n-1)/n": f"2*{less}/{self.group.below}", "n>1": f"min({self.group}-1, 1)"}
        return [shares.get(self.share, less), *found]


@dataclass(frozen=True)
class Formula:
    """A sum of (times, product)."""

    terms: tuple[tuple[int, Product], ...] = ()

    def at(self, mesh: Mesh, sizes: Sizes = NO_SIZES) -> int:
        """Bytes on a mesh, for open sizes and trips by name (none: those of the plan); each collective's are rounded up."""
        return sum(
            (Expr.of(times).at(sizes) if sizes else times) * math.ceil(term.at(mesh, sizes))
            for times, term in self.terms
        )

    def __str__(self) -> str:
        """Terms that differ in their number only are joined."""
        table: dict[str, int] = {}
        for times, term in self.terms:
            number = Expr.of(times).number
            key = " * ".join([*([size_text(times)] if number is None else []), *term.factors])
            table[key] = table.get(key, 0) + (1 if number is None else number) * term.constant
        words = [
            f"{key} * {count}" if key and count != 1 else key or str(count) for key, count in table.items() if count
        ]
        return " + ".join(words) or "0"


def total(formulas: Iterable[tuple[int, Formula]]) -> Formula:
    """The sum of formulas, each so many times."""
    return Formula(tuple((times * count, term) for times, formula in formulas for count, term in formula.terms))


def moved_formula(source: Sharding, target: Sharding, value: Value) -> Formula:
    """Bytes of a permute, re-tile or halo exchange of a value."""
    shape = tuple(map(Size, value.type.sizes))
    rows = Moved(source.without_partial(), target.without_partial(), shape)
    return Formula(((1, Product(value.type.numpy_dtype.itemsize, (rows,))),))


def formula_of(op: str, attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh) -> Formula:
    """Bytes that a device moves in a collective. Values without a sharding have local types: their sizes are fixed."""
    if op in LOCAL_OPS:
        return Formula()
    if op in TRANSFERS and source.sharding is not None:
        return moved_formula(*transfer_ends(op, attrs), source)
    if op not in _RING:
        moved = ring_bytes(op, attrs, _local_type(source, mesh), _local_type(result, mesh), mesh)
        return Formula(((1, Product(moved)),) if moved else ())
    group = Devices.over(group_axes(op, attrs))
    share, rows = _RING[op](attrs, _sizes(source), _sizes(result), group)
    return Formula(((1, _product(rows, source.type.numpy_dtype.itemsize, group, share)),))


def _product(rows: Sequence[Size], itemsize: int, group: Devices, share: str) -> Product:
    constant = itemsize * math.prod(size.known for size in rows if size.known is not None)
    return Product(constant, tuple(size for size in rows if size.known is None), group, share)


def _sizes(value: Value) -> tuple[Size, ...]:
    sharding, shape = value.sharding, value.type.sizes
    if sharding is None:
        return tuple(Size(size) for size in shape)
    halo = sharding.halo or ((0, 0),) * sharding.rank
    offsets = sharding.offsets or ((),) * sharding.rank
    found: list[Size] = []
    for size, axes, around, starts in zip(shape, sharding.dims, halo, offsets, strict=True):
        if starts:
            found.append(Size(max(b - a for a, b in itertools.pairwise(starts)), (), sum(around)))
        else:
            found.append(Size(size, (Devices.over(axes),) if axes else (), sum(around)))
    return tuple(found)


def _local_type(value: Value, mesh: Mesh) -> TensorType:
    return value.type.with_shape(size.at(mesh) for size in _sizes(value))


Dims = tuple[Size, ...]
Ring = Callable[[Mapping[str, Any], Dims, Dims, Devices], tuple[str, Dims]]


def _message(attrs: Mapping[str, Any], source: Dims, result: Dims, group: Devices) -> tuple[str, Dims]:
    return "n>1", source


def _block(attrs: Mapping[str, Any], source: Dims, result: Dims, group: Devices) -> tuple[str, Dims]:
    """One of the blocks that all_to_all exchanges."""
    split = attrs["split_dim"]
    rows = list(source)
    rows[split] = result[split]
    if split == attrs["concat_dim"]:
        rows[split] = Size(source[split].size, (*source[split].groups, group), 0)
    return "n-1", tuple(rows)


_RING: dict[str, Ring] = {
    "all_reduce": lambda attrs, source, result, group: ("2(n-1)/n", source),
    "all_gather": lambda attrs, source, result, group: ("n-1", source),
    "reduce_scatter": lambda attrs, source, result, group: ("n-1", result),
    "all_to_all": _block,
    "gather_to": lambda attrs, source, result, group: ("n-1", source),
    "scatter_from": lambda attrs, source, result, group: ("n-1", result),
    **dict.fromkeys(("broadcast", "reduce_to", "send", "recv", "shift", "permute_pairs"), _message),
}
