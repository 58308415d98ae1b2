"""Bytes of collectives as formulas in the numbers of devices along mesh axes: `2*(n_tp-1)/n_tp * 4096`.

`n_tp` is the number of devices along axis `tp`; `ceil` rounds up. A formula is a sum of products, holds for the
program as it was planned (for other sizes another plan may be cheaper), and evaluates to what `ring_bytes` says.
What permutes, re-tiles, halo exchanges and fetched rows move depends on which rows are where: these are numbers
for the mesh at hand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from meshgen.ccl.cost import LOCAL_OPS, group_axes, ring_bytes
from meshgen.ir.graph import TensorType, Value
from meshgen.mesh import Mesh, split_ref


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

    def at(self, mesh: Mesh) -> int:
        rows = self.size
        for group in self.groups:
            rows = -(-rows // group.at(mesh))
        return rows + self.halo

    @property
    def known(self) -> int | None:
        """The number, where it depends on no axis."""
        return None if any(group.axes for group in self.groups) else self.at(Mesh(()))

    def __str__(self) -> str:
        text = str(self.size)
        for group in self.groups:
            text = f"ceil({text}/{group.below})"
        return f"({text}+{self.halo})" if self.halo else text


@dataclass(frozen=True)
class Product:
    """`times * share * constant * rows...`; the share is what a ring of the group moves of its bytes."""

    constant: int
    rows: tuple[Size, ...] = ()
    group: Devices | None = None
    share: str = ""  # "", "n-1" or "2(n-1)/n" of the group

    def at(self, mesh: Mesh) -> Fraction:
        whole = Fraction(self.constant * math.prod(size.at(mesh) for size in self.rows))
        if self.group is None:
            return whole
        count = self.group.at(mesh)
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
        return [f"2*{less}/{self.group.below}" if self.share == "2(n-1)/n" else less, *found]


@dataclass(frozen=True)
class Formula:
    """A sum of (times, product)."""

    terms: tuple[tuple[int, Product], ...] = ()

    def at(self, mesh: Mesh) -> int:
        """Bytes on a mesh; each collective's are rounded up to a whole one."""
        return sum(times * math.ceil(term.at(mesh)) for times, term in self.terms)

    def __str__(self) -> str:
        """Terms that differ in their number only are joined."""
        table: dict[str, int] = {}
        for times, term in self.terms:
            key = " * ".join(term.factors)
            table[key] = table.get(key, 0) + times * term.constant
        words = [
            f"{key} * {count}" if key and count != 1 else key or str(count) for key, count in table.items() if count
        ]
        return " + ".join(words) or "0"


def total(formulas: Iterable[tuple[int, Formula]]) -> Formula:
    """The sum of formulas, each so many times."""
    return Formula(tuple((times * count, term) for times, formula in formulas for count, term in formula.terms))


def formula_of(op: str, attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh) -> Formula:
    """Bytes that a device moves in a collective. Values without a sharding have local types: their sizes are fixed."""
    if op in LOCAL_OPS:
        return Formula()
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


Rows = tuple[Size, ...]
Ring = Callable[[Mapping[str, Any], Rows, Rows, Devices], tuple[str, Rows]]


def _block(attrs: Mapping[str, Any], source: Rows, result: Rows, group: Devices) -> tuple[str, Rows]:
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
}
