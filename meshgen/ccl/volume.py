"""Bytes of collectives as formulas in axis sizes, unknown tensor sizes and trip counts: `2*(n_tp-1)/n_tp * x_0 * 4`.

`n_tp` is the size of mesh axis `tp`, and `n_dp@stage1` is the size of axis `dp` of mesh `stage1`. `x_0` is the size of
dim 0 of input `x`. `trips_12` is the trip count of the loop on line 12. `ceil` rounds up. Known sizes and trip counts
appear as numbers. A formula is a sum of products. Its value is that of `ring_bytes`: bytes that each device moves. It
holds for the current plan only: for other sizes, another plan may be cheaper.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from meshgen.ccl.cost import group_axes, transfer_ends
from meshgen.ccl.mesh_transfers import Ends
from meshgen.ccl.traffic_counts import ONE, Counted, Fetched, Moved, Names, axis_size_symbols, devices
from meshgen.ir.graph import Value
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.symbols import Expr
from meshgen.mesh import Mesh
from meshgen.ops.classes import LOCAL_OPS, RESHARDS
from meshgen.spec import Sharding

if TYPE_CHECKING:
    from fractions import Fraction

NO_SIZES: Names = {}


class Term(NamedTuple):
    """The bytes of one collective per device, as the product `times * share(group) * counted * bytes`.

    Attributes:
        bytes: bytes of the moved tensor, or of one moved row or element if `counted` is set.
        group: number of devices in a group.
        share: the fraction of the bytes that a ring moves, as a function of the group size n.
        counted: the number of moved rows or elements; None if `bytes` is the entire tensor.
        times: how often the collective runs.
    """

    bytes: Expr
    group: Expr = ONE
    # one of "" (all bytes), "n-1" (times n-1), "2(n-1)/n" and "n>1" (0 in a group of one device, else 1)
    share: str = ""
    counted: Counted | None = None
    times: Expr = ONE

    def at(self, names: Names) -> int:
        """Return the bytes per device for the sizes in `names`. The bytes of a single run are rounded up."""
        total_bytes = self.bytes.at(names) * (self.counted.at(names) if self.counted else 1)
        return self.times.at(names) * math.ceil(self._share_at(self.group.at(names)) * total_bytes)

    def _share_at(self, count: int) -> Fraction:
        from fractions import Fraction  # a lazy import: most compilations never evaluate a formula

        shares = {
            "n-1": Fraction(count - 1),
            "2(n-1)/n": Fraction(2 * (count - 1), count),
            "n>1": Fraction(min(count - 1, 1)),
        }
        return shares.get(self.share, Fraction(1))

    def parts(self, names: Names) -> tuple[tuple[str, ...], Expr]:
        """Return the factors that are texts, and the bytes that they multiply."""
        constant_times, moved_count = self.times.number, self.counted.form(names) if self.counted else ONE
        factors = [*([_bracketed(self.times)] if constant_times is None else []), *self._share_text()]
        factors += [moved_count] if isinstance(moved_count, str) else []
        moved_bytes = self.bytes * (ONE if isinstance(moved_count, str) else moved_count)
        return tuple(factors), moved_bytes if constant_times is None else moved_bytes * Expr.of(constant_times)

    def _share_text(self) -> list[str]:
        if not self.share:
            return []
        if self.group.number is not None:
            share = self._share_at(self.group.number)
            return [] if share == 1 else [str(share)]
        group = str(self.group)
        denominator = f"({group})" if "*" in group else group
        texts = {"2(n-1)/n": f"2*({group}-1)/{denominator}", "n>1": f"min({group}-1, 1)", "n-1": f"({group}-1)"}
        return [texts[self.share]]


def _bracketed(expr: Expr) -> str:
    text = str(expr)
    return f"({text})" if len(expr.terms) > 1 else text


@dataclass(frozen=True)
class Formula:
    """A sum of terms, in bytes per device, and the current values of the program's symbolic sizes, by name."""

    terms: tuple[Term, ...] = ()
    now: Names = field(default_factory=dict[str, int], compare=False)

    def at(self, mesh: Mesh, sizes: Names = NO_SIZES) -> int:
        """Return the bytes per device on `mesh`.

        Args:
            sizes: values of symbolic sizes and trip counts, by name; the current values by default.
        """
        names = {**self.now, **axis_size_symbols(mesh), **sizes}
        return sum(term.at(names) for term in self.terms)

    def __str__(self) -> str:
        """Return the sum as text. Terms with the same factors are merged by adding their bytes."""
        table: dict[tuple[str, ...], Expr] = {}
        for term in self.terms:
            key, moved_bytes = term.parts(self.now)
            table[key] = table.get(key, Expr.of(0)) + moved_bytes
        return (
            " + ".join(_product_text(key, moved_bytes) for key, moved_bytes in table.items() if moved_bytes.terms)
            or "0"
        )


def _product_text(factors: Sequence[str], moved_bytes: Expr) -> str:
    """Return the product of `factors` and `moved_bytes` as text."""
    if len(moved_bytes.terms) != 1:
        return " * ".join([*factors, f"({moved_bytes})" if factors else str(moved_bytes)])
    ((names, coefficient),) = moved_bytes.signed()
    texts = [*factors, *map(str, names)]
    return " * ".join([*texts, *([str(coefficient)] if coefficient != 1 or not texts else [])])


def total(formulas: Iterable[tuple[int, Formula]]) -> Formula:
    """Return the weighted sum of (weight, formula) pairs. A weight is how often the collective of the formula runs."""
    pairs = list(formulas)
    now = {name: size for _, formula in pairs for name, size in formula.now.items()}
    terms = [(Expr.of(times), term) for times, formula in pairs for term in formula.terms]
    return Formula(tuple(Term(t.bytes, t.group, t.share, t.counted, t.times * times) for times, t in terms), now)


def formula_of(
    op: str, attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh, sizes: Names = NO_SIZES
) -> Formula:
    """Return the bytes that each device moves in a collective, as a formula.

    A value without a sharding has a local type. If its sizes are symbolic, the formula contains their names.

    Args:
        mesh: the mesh of the current plan.
        sizes: the current values of symbolic sizes, by name.
    """
    if op in LOCAL_OPS:
        return Formula()
    now = {**axis_size_symbols(mesh), **sizes}
    itemsize = Expr.of(source.type.numpy_dtype.itemsize)
    if op in BETWEEN_MESHES:
        ends = Ends.of(op, attrs, mesh)
        peer = {f"@{attrs['peer'].name}": attrs["peer"]}
        now |= {
            name: size
            for suffix, peer_mesh in peer.items()
            for name, size in axis_size_symbols(peer_mesh, suffix).items()
        }
        return Formula((Term(_between(op, ends, *peer) * itemsize),), now)
    if op in RESHARDS:
        moved = Moved.of(*transfer_ends(op, attrs), attrs["shape"], mesh)
        return Formula((Term(itemsize, counted=moved),), now)
    if op == "fetch_rows":
        return Formula((_fetch(attrs, source, result, mesh, itemsize),), now)
    group = devices(group_axes(op, attrs))
    share, moved_dims = _RING[op](attrs, _sizes(source), _sizes(result), group)
    return Formula((Term(math.prod(moved_dims, start=itemsize), group, share),), now)


def _fetch(attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh, itemsize: Expr) -> Term:
    dim = attrs["dim"]
    fetched = Fetched.of(attrs, source.type.sizes[dim], result.type.sizes[dim], mesh.group_size(attrs["axes"]))
    row = math.prod((size for d, size in enumerate(_sizes(source)) if d != dim), start=itemsize)
    return Term(row, counted=fetched)


def _between(op: str, ends: Ends, peer: str) -> Expr:
    """Return the number of elements that the busiest device of this side moves in a transfer between meshes.

    A sending device sends its share of all copies of its tile. A receiving device receives one tile.
    """
    suffixes = ("", peer) if op == "transfer_send" else (peer, "")
    shape = [Expr.of(size) for size in ends.shape]
    (tile, holders), (target_tile, copies) = (
        _tile_and_copies(shape, *end)
        for end in zip((ends.source, ends.target), (ends.sender, ends.receiver), suffixes, strict=True)
    )
    return (tile * copies).divided_up(holders) if op == "transfer_send" else target_tile


def _tile_and_copies(shape: Sequence[Expr], sharding: Sharding, mesh: Mesh, suffix: str) -> tuple[Expr, Expr]:
    """Return the number of elements of the largest tile, and the number of devices that hold the same tile."""
    tile, parts = ONE, ONE
    for dim, size in enumerate(shape):
        if sharding.offsets and sharding.offsets[dim]:
            tile *= Expr.of(max(b - a for a, b in itertools.pairwise(sharding.offsets[dim])))
        else:
            tile *= size.divided_up(devices(sharding.dims[dim], suffix))
        parts *= devices(sharding.dims[dim], suffix)
    return tile, devices(mesh.names, suffix).divided(parts)


def _sizes(value: Value) -> tuple[Expr, ...]:
    """Return the sizes of the buffer in which a device holds `value`, including the halo."""
    sharding, shape = value.sharding, value.type.sizes
    if sharding is None:
        return tuple(map(Expr.of, shape))
    halo = sharding.halo or ((0, 0),) * sharding.rank
    offsets = sharding.offsets or ((),) * sharding.rank
    sizes: list[Expr] = []
    for size, axes, around, starts in zip(shape, sharding.dims, halo, offsets, strict=True):
        rows = Expr.of(size).divided_up(devices(axes))
        rows = Expr.of(max(b - a for a, b in itertools.pairwise(starts))) if starts else rows
        sizes.append(rows + Expr.of(sum(around)))
    return tuple(sizes)


Dims = tuple[Expr, ...]
Ring = Callable[[Mapping[str, Any], Dims, Dims, Expr], tuple[str, Dims]]


def _message(attrs: Mapping[str, Any], source: Dims, result: Dims, group: Expr) -> tuple[str, Dims]:
    return "n>1", source


def _block(attrs: Mapping[str, Any], source: Dims, result: Dims, group: Expr) -> tuple[str, Dims]:
    """Return the share "n-1" and the sizes of one block: a device sends n-1 blocks in an all_to_all."""
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
