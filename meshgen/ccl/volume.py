"""Bytes of collectives as formulas in device counts, open tensor sizes and trips of loops: `2*(n_tp-1)/n_tp * x_0 * 4`.

`n_tp` is the number of devices along axis `tp` (`n_dp@stage1` along one of another mesh), `x_0` the size of dim 0 of
input `x` where it is open, `trips_12` the trip count of the loop on line 12 where it is unknown;
`ceil` rounds up. A formula is a sum of products, holds for the program as it was planned (for other sizes another plan
may be cheaper), and evaluates to `ring_bytes`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from meshgen.ccl.between import Ends
from meshgen.ccl.cost import group_axes, transfer_ends
from meshgen.ccl.counted import ONE, Counted, Fetched, Moved, Names, devices, numbers_of_devices
from meshgen.ir.graph import Value
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.symbols import Expr
from meshgen.mesh import Mesh
from meshgen.ops.classes import LOCAL_OPS, RESHARDS
from meshgen.spec import Sharding

if TYPE_CHECKING:
    from fractions import Fraction

NONE: Names = {}


class Term(NamedTuple):
    """`times * share of the group * counted rows * bytes`; the share is the fraction of the bytes that a ring moves."""

    bytes: Expr
    group: Expr = ONE
    share: str = ""  # "", "n-1", "2(n-1)/n" or "n>1" of the group
    counted: Counted | None = None
    times: Expr = ONE

    def at(self, names: Names) -> int:
        """Bytes; of one run they are rounded up."""
        whole = self.bytes.at(names) * (self.counted.at(names) if self.counted else 1)
        return self.times.at(names) * math.ceil(self._share_at(self.group.at(names)) * whole)

    def _share_at(self, count: int) -> Fraction:
        from fractions import Fraction  # only where bytes are asked for

        shares = {
            "n-1": Fraction(count - 1),
            "2(n-1)/n": Fraction(2 * (count - 1), count),
            "n>1": Fraction(min(count - 1, 1)),
        }
        return shares.get(self.share, Fraction(1))

    def parts(self, names: Names) -> tuple[tuple[str, ...], Expr]:
        """Factors as text, and the bytes that they multiply."""
        number, form = self.times.number, self.counted.form(names) if self.counted else ONE
        words = [*([_bracketed(self.times)] if number is None else []), *self._share_text()]
        words += [form] if isinstance(form, str) else []
        moved = self.bytes * (ONE if isinstance(form, str) else form)
        return tuple(words), moved if number is None else moved * Expr.of(number)

    def _share_text(self) -> list[str]:
        if not self.share:
            return []
        if self.group.number is not None:
            share = self._share_at(self.group.number)
            return [] if share == 1 else [str(share)]
        group = str(self.group)
        below = f"({group})" if "*" in group else group
        texts = {"2(n-1)/n": f"2*({group}-1)/{below}", "n>1": f"min({group}-1, 1)", "n-1": f"({group}-1)"}
        return [texts[self.share]]


def _bracketed(expr: Expr) -> str:
    text = str(expr)
    return f"({text})" if len(expr.terms) > 1 else text


@dataclass(frozen=True)
class Formula:
    """A sum of terms, and the current sizes of the program, by name."""

    terms: tuple[Term, ...] = ()
    now: Names = field(default_factory=dict[str, int], compare=False)

    def at(self, mesh: Mesh, sizes: Names = NONE) -> int:
        """Bytes on a mesh, for open sizes and trips by name (default: the current ones)."""
        names = {**self.now, **numbers_of_devices(mesh), **sizes}
        return sum(term.at(names) for term in self.terms)

    def __str__(self) -> str:
        """Terms that differ in their bytes only are joined."""
        table: dict[tuple[str, ...], Expr] = {}
        for term in self.terms:
            key, moved = term.parts(self.now)
            table[key] = table.get(key, Expr.of(0)) + moved
        return " + ".join(_product_text(key, moved) for key, moved in table.items() if moved.terms) or "0"


def _product_text(factors: Sequence[str], moved: Expr) -> str:
    """Factors, the names of which the bytes are made, and their number."""
    if len(moved.terms) != 1:
        return " * ".join([*factors, f"({moved})" if factors else str(moved)])
    ((names, number),) = moved.signed()
    words = [*factors, *map(str, names)]
    return " * ".join([*words, *([str(number)] if number != 1 or not words else [])])


def total(formulas: Iterable[tuple[int, Formula]]) -> Formula:
    """The sum of formulas, each so many times."""
    pairs = list(formulas)
    now = {name: size for _, formula in pairs for name, size in formula.now.items()}
    terms = [(Expr.of(times), term) for times, formula in pairs for term in formula.terms]
    return Formula(tuple(Term(t.bytes, t.group, t.share, t.counted, t.times * times) for times, t in terms), now)


def formula_of(
    op: str, attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh, sizes: Names = NONE
) -> Formula:
    """Bytes that a device moves in a collective.

    Values without a sharding have local types; where their sizes are named, the formula is in these names.

    Args:
        mesh: the current one.
        sizes: the current values of open sizes.
    """
    if op in LOCAL_OPS:
        return Formula()
    now = {**numbers_of_devices(mesh), **sizes}
    itemsize = Expr.of(source.type.numpy_dtype.itemsize)
    if op in BETWEEN_MESHES:
        ends = Ends.of(op, attrs, mesh)
        peer = {f"@{attrs['peer'].name}": attrs["peer"]}
        now |= {
            name: size for suffix, other in peer.items() for name, size in numbers_of_devices(other, suffix).items()
        }
        return Formula((Term(_between(op, ends, *peer) * itemsize),), now)
    if op in RESHARDS:
        moved = Moved.of(*transfer_ends(op, attrs), attrs["shape"], mesh)
        return Formula((Term(itemsize, counted=moved),), now)
    if op == "fetch_rows":
        return Formula((_fetch(attrs, source, result, mesh, itemsize),), now)
    group = devices(group_axes(op, attrs))
    share, rows = _RING[op](attrs, _sizes(source), _sizes(result), group)
    return Formula((Term(math.prod(rows, start=itemsize), group, share),), now)


def _fetch(attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh, itemsize: Expr) -> Term:
    dim = attrs["dim"]
    fetched = Fetched.of(attrs, source.type.sizes[dim], result.type.sizes[dim], mesh.group_size(attrs["axes"]))
    row = math.prod((size for d, size in enumerate(_sizes(source)) if d != dim), start=itemsize)
    return Term(row, counted=fetched)


def _between(op: str, ends: Ends, peer: str) -> Expr:
    """Elements that the busiest device sends, its share of all copies, or receives: a tile."""
    suffixes = ("", peer) if op == "transfer_send" else (peer, "")
    shape = [Expr.of(size) for size in ends.shape]
    (tile, holders), (wanted, copies) = (
        _tile_and_copies(shape, *end)
        for end in zip((ends.source, ends.target), (ends.sender, ends.receiver), suffixes, strict=True)
    )
    return (tile * copies).divided_up(holders) if op == "transfer_send" else wanted


def _tile_and_copies(shape: Sequence[Expr], sharding: Sharding, mesh: Mesh, suffix: str) -> tuple[Expr, Expr]:
    """Elements of the largest tile, and on how many devices each tile is."""
    tile, parts = ONE, ONE
    for dim, size in enumerate(shape):
        if sharding.offsets and sharding.offsets[dim]:
            tile *= Expr.of(max(b - a for a, b in itertools.pairwise(sharding.offsets[dim])))
        else:
            tile *= size.divided_up(devices(sharding.dims[dim], suffix))
        parts *= devices(sharding.dims[dim], suffix)
    return tile, devices(mesh.names, suffix).divided(parts)


def _sizes(value: Value) -> tuple[Expr, ...]:
    """Sizes of a device's buffer."""
    sharding, shape = value.sharding, value.type.sizes
    if sharding is None:
        return tuple(map(Expr.of, shape))
    halo = sharding.halo or ((0, 0),) * sharding.rank
    offsets = sharding.offsets or ((),) * sharding.rank
    found: list[Expr] = []
    for size, axes, around, starts in zip(shape, sharding.dims, halo, offsets, strict=True):
        rows = Expr.of(size).divided_up(devices(axes))
        rows = Expr.of(max(b - a for a, b in itertools.pairwise(starts))) if starts else rows
        found.append(rows + Expr.of(sum(around)))
    return tuple(found)


Dims = tuple[Expr, ...]
Ring = Callable[[Mapping[str, Any], Dims, Dims, Expr], tuple[str, Dims]]


def _message(attrs: Mapping[str, Any], source: Dims, result: Dims, group: Expr) -> tuple[str, Dims]:
    return "n>1", source


def _block(attrs: Mapping[str, Any], source: Dims, result: Dims, group: Expr) -> tuple[str, Dims]:
    """One of the blocks that all_to_all exchanges."""
    split = attrs["split_dim"]
    rows = list(source)
    rows[split] = result[split]
    if split == attrs["concat_dim"]:
        rows[split] = source[split].divided_up(group)
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
