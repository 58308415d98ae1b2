"""Sharding rules: the loops (factors) of an operation, and the factors of each operand and result dim.

In factor notation a word is a factor, and dims with the same factor are sharded equally. `(a b)` is a dim that
consists of two factors, major to minor, and `1` is a dim without a factor. The rules determine the iterator types and
indexing maps of the ShardingInterface of MLIR's mesh RFC (`docs/dialects.md`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from meshgen.ir.graph import TensorType, is_inexact
from meshgen.ir.symbols import Expr, expressions
from meshgen.ops.evaluate.common import bits

Kind = Literal["parallel", "indexed", "reduce", "combine", "scan", "window", "whole"]
DimMap = tuple[tuple[int, ...], ...]
_REDUCTIONS = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "product",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
ALL_KINDS = tuple(_REDUCTIONS.values())


OP_OF_KIND = {kind: op for op, kind in _REDUCTIONS.items()}
COMBINED_KINDS = {**_REDUCTIONS, "subtract": "sum"}
"""The kind of partial values that an element-wise op combines: it may run before or after their reduction."""


def reduction_kind(combiner: str) -> str:
    """Return the kind of the partial result if the reduced dim of a reduction with op `combiner` is sharded: `add` ->
    `sum`.
    """
    return _REDUCTIONS[combiner]


@dataclass(frozen=True)
class Factor:
    """A loop of an operation.

    `size` is the trip count; for a window factor it is the size of the result's dim. `kind` is one of:
        parallel: may be sharded.
        indexed: may be sharded. An operand contains positions along the factor, which the partitioner makes relative to
            the tile.
        reduce: may be sharded; leaves a partial result.
        combine: may be sharded; the op itself gathers and combines the results of the devices.
        scan: may be sharded; the devices exchange one row each, the total of their tile.
        window: may be sharded; a tile of the result needs operand rows from the tiles of other devices.
        whole: must stay replicated.

    A `reduce` factor may have windows too. The op then reduces a dim of one operand, and a tile of this dim needs rows
    of another operand that are in the tiles of other devices.
    """

    name: str
    size: int
    kind: Kind = "parallel"
    reduction: str = ""


class Linear(NamedTuple):
    """A set of operands in which an op is linear.

    If exactly these operands are partial with one of `kinds`, the result is partial with the same kind.
    """

    operands: tuple[int, ...]
    kinds: tuple[str, ...] = ("sum",)


def picked_kind(dtype: str) -> str:
    """Return the partial kind for values of which one device holds each element, and all others hold the neutral
    element.

    For f8E8M0FNU it is max: all values of this type are positive, so addition has no neutral element.
    """
    return {"i1": "or", "f8E8M0FNU": "max"}.get(dtype, "sum")


def linear_in_each(operands: Sequence[TensorType], result: TensorType) -> tuple[Linear, ...]:
    """Return a `Linear` for each operand in which the result of a matmul is linear.

    An integer operand narrower than the result is excluded: its partial sums would wrap around at its width.
    """

    def wraps_alike(dtype: str) -> bool:
        if is_inexact(dtype) or is_inexact(result.dtype):
            return is_inexact(dtype) and is_inexact(result.dtype)
        return bits(dtype) >= bits(result.dtype)

    return tuple(Linear((index,)) for index, operand_type in enumerate(operands) if wraps_alike(operand_type.dtype))


class Window(NamedTuple):
    """The operand rows that a window factor needs.

    Result rows [r, s) need rows [r * stride + base, (s - 1) * stride + base + width) of the operand's dim. Rows outside
    the operand are the op's padding. A stride of -1 (width 1) describes a reversed dim, whose rows are read in reverse
    order. With a dilation d, the operand's rows are at 0, d, 2 d, ..., with padding between them.
    """

    factor: int
    operand: int
    dim: int
    base: int
    stride: int = 1
    width: int = 1
    dilation: int = 1


class Pick(NamedTuple):
    """A window of so few rows that a partial result can be cheaper than a gather of the rows.

    Each device copies the rows that are in its tile and writes zeros for all others, so the result is partial. The op
    itself then needs no communication, and a later all-reduce covers only these rows.
    """

    window: Window
    kind: str

    def pays(self, rows: int, devices: int) -> bool:
        """Whether an all-reduce of `rows` rows moves at most as many bytes as a gather of the rows, padded to tiles."""
        return 2 * rows <= devices


@dataclass(frozen=True)
class Rule:
    """The sharding rule of an operation: the factors (loops), and the factors of each dim of each operand and result.

    `operands` and `results` hold factor indices per dim, major to minor. A dim without factors is replicated or has
    size 1.
    """

    factors: tuple[Factor, ...]
    operands: tuple[DimMap, ...]
    results: tuple[DimMap, ...]
    linear: tuple[Linear, ...] = ()
    windows: tuple[Window, ...] = ()
    picks: tuple[Pick, ...] = ()
    _places: tuple[Any, ...] = field(init=False, repr=False, compare=False, default=())

    def notation(self) -> str:
        """Return the rule in factor notation, followed by the factors that are not parallel."""
        sides = [", ".join(self._dims(m) for m in side) for side in (self.operands, self.results)]
        tail = "".join(
            f" {f.kind}({f.name}{': ' + f.reduction if f.reduction else ''})"
            for f in self.factors
            if f.kind != "parallel"
        )
        return f"{sides[0]} -> {sides[1]}{tail}".strip()

    def _dims(self, dims: DimMap) -> str:
        words = [" ".join(self.factors[f].name for f in part) or "1" for part in dims]
        return " ".join(f"({w})" if " " in w else w for w in words) or "()"

    def __post_init__(self) -> None:
        def dim_of(dims: DimMap, factor: int) -> int | None:
            return next((d for d, part in enumerate(dims) if factor in part), None)

        sides = (self.operands, self.results)
        dims_by_factor = tuple(
            tuple(tuple(dim_of(m, f) for m in side) for side in sides) for f in range(len(self.factors))
        )
        object.__setattr__(self, "_places", dims_by_factor)

    def places(self, factor: int) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        """Return the dim that the factor appears in, or None, for each operand and for each result."""
        return self._places[factor]

    def iterator_types(self) -> tuple[str, ...]:
        """Return the loop types as in the ShardingInterface of the RFC: parallel, reduction_KIND or invalid."""
        names = {"whole": "invalid", "indexed": "parallel", "reduce": "reduction_", "combine": "reduction_generic"}
        return tuple(names.get(f.kind, f.kind) + f.reduction for f in self.factors)


def rule(
    notation: str,
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
    *,
    reduce: Mapping[str, str] | None = None,
    indexed: Sequence[str] = (),
    combine: Sequence[str] = (),
    scan: Sequence[str] = (),
    whole: Sequence[str] = (),
    linear: Sequence[Linear] = (),
    sizes: Mapping[str, int] | None = None,
    windows: Mapping[tuple[str, int], tuple[int, ...]] | None = None,
    picks: str = "",
) -> Rule:
    """Return the rule for `notation`. Factor sizes are those of the tensors' dims; `sizes` gives the sizes in compound
    dims.

    Args:
        windows: (base, stride, width) or (base, stride, width, dilation) by factor and operand index (see `Window`).
        picks: the kind of partial result that a window may leave (see `Pick`).
    Raises:
        ValueError: a side has the wrong number of tensors or dims, a factor has two sizes, or a keyword argument names
            a factor that does not occur.
    """
    notes = _Notes(
        tuple(sorted((reduce or {}).items())),
        tuple(indexed),
        tuple(combine),
        tuple(scan),
        tuple(whole),
        tuple(linear),
        tuple(sorted((sizes or {}).items())),
        tuple(sorted((windows or {}).items())),
        picks,
    )
    rows = (entry for _, window in notes.windows for entry in window)
    sizes_of = (size for tensor_type in (*operands, *results) for size in tensor_type.shape)
    symbolic_sizes = expressions(itertools.chain(sizes_of, (size for _, size in notes.sizes), rows))
    return _parsed(notation, tuple(operands), tuple(results), notes, symbolic_sizes)


class _Notes(NamedTuple):
    """The keyword arguments of `rule`, in hashable form."""

    reduce: tuple[tuple[str, str], ...]
    indexed: tuple[str, ...]
    combine: tuple[str, ...]
    scan: tuple[str, ...]
    whole: tuple[str, ...]
    linear: tuple[Linear, ...]
    sizes: tuple[tuple[str, int], ...]
    windows: tuple[tuple[tuple[str, int], tuple[int, ...]], ...]
    picks: str

    @property
    def windowed(self) -> set[str]:
        return {name for (name, _), _ in self.windows}


@lru_cache(maxsize=4096)
def _parsed(
    notation: str,
    operands: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    notes: _Notes,
    named: tuple[tuple[int, Expr], ...],
) -> Rule:
    """Parse a rule. Repeated layers have equal rules, so results are cached.

    Args:
        named: the expressions of symbolic sizes. In the cache key they distinguish sizes with equal integers.
    """
    left, arrow, right = notation.partition("->")
    sides = [_tensors(left), _tensors(right)]
    if not arrow or [len(side) for side in sides] != [len(operands), len(results)]:
        raise ValueError(f"rule '{notation}' does not name {len(operands)} operands and {len(results)} results")
    factor_sizes, windowed = dict(notes.sizes), notes.windowed
    seen_factors: dict[str, None] = {}
    for dims, tensor_type in zip(sides[1], results, strict=True):
        _collect(notation, dims, tensor_type, factor_sizes, seen_factors, set())
    for dims, tensor_type in zip(sides[0], operands, strict=True):
        _collect(notation, dims, tensor_type, factor_sizes, seen_factors, windowed)
    for name in (*dict(notes.reduce), *notes.indexed, *notes.combine, *notes.scan, *notes.whole, *sorted(windowed)):
        if name not in seen_factors:
            raise ValueError(f"rule '{notation}' has no factor '{name}'")
    factors = tuple(_factor(name, factor_sizes[name], notes) for name in _loop_order(seen_factors, sides))
    factor_index = {loop.name: i for i, loop in enumerate(factors)}
    maps = [tuple(tuple(tuple(factor_index[w] for w in dim) for dim in dims) for dims in tensors) for tensors in sides]
    windows = [
        Window(
            factor_index[name],
            operand,
            next(d for d, part in enumerate(maps[0][operand]) if factor_index[name] in part),
            *rows,
        )
        for (name, operand), rows in notes.windows
    ]
    picks = tuple(Pick(window, notes.picks) for window in windows if notes.picks and window.stride == 1)
    return Rule(factors, maps[0], maps[1], notes.linear, tuple(windows), picks)


def _tensors(side: str) -> list[list[list[str]]]:
    parts = side.split(",") if side.strip() else []
    return [
        [[w for w in re.findall(r"\w+", dim) if w != "1"] for dim in re.findall(r"\([^)]*\)|\w+", part)]
        if part.strip() != "()"
        else []
        for part in parts
    ]


def _collect(
    notation: str,
    dims: list[list[str]],
    tensor_type: TensorType,
    factor_sizes: dict[str, int],
    seen_factors: dict[str, None],
    windowed: set[str],
) -> None:
    """Add the factors of a tensor's dims to `seen_factors`, and their sizes to `factor_sizes`.

    A factor in `windowed` gets no size here, because its size is that of the result's dim.
    """
    if len(dims) != tensor_type.rank:
        raise ValueError(f"rule '{notation}' gives {len(dims)} dims to a tensor of rank {tensor_type.rank}")
    for names, size in zip(dims, tensor_type.sizes, strict=True):
        seen_factors |= dict.fromkeys(names)
        if len(names) == 1 and names[0] not in windowed and factor_sizes.setdefault(names[0], size) != size:
            raise ValueError(f"rule '{notation}': factor '{names[0]}' has sizes {factor_sizes[names[0]]} and {size}")
        if len(names) > 1 and math.prod(factor_sizes[n] for n in names) != size:
            raise ValueError(f"rule '{notation}': factors {names} do not multiply to {size}")


def _loop_order(order: Iterable[str], sides: list[list[list[list[str]]]]) -> list[str]:
    """Return all factor names: the factors of the results in dim order, then those of the operands (the order of the
    RFC).
    """
    named = (n for dims in (*sides[1], *sides[0]) for dim in dims for n in dim)
    return [*dict.fromkeys(itertools.chain(named, order))]


def _factor(name: str, size: int, notes: _Notes) -> Factor:
    if reduction := dict(notes.reduce).get(name):
        return Factor(name, size, "reduce", reduction)
    if name in notes.indexed:
        return Factor(name, size, "indexed")
    if name in notes.combine:
        return Factor(name, size, "combine")
    if name in notes.scan:
        return Factor(name, size, "scan")
    if name in notes.windowed:
        return Factor(name, size, "window")
    return Factor(name, size, "whole" if name in notes.whole else "parallel")


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(count: int, start: int = 0) -> list[str]:
    """Return names for `count` factors: a, b, ..., z, a1, b1, ..."""
    return [_LETTERS[i % 26] + (str(i // 26) if i >= 26 else "") for i in range(start, start + count)]
