"""Names of the loops of an attention, and the attention's operands with one dim per loop.

Layout ops between operands and matmuls are undone: transposes, dims of size 1, heads that are repeated or merged with
the batch. A variable that is read in parts (`head // 4`: four query heads share one key head) becomes two variables, so
that each dim of an operand is one loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Remainder, Var, variables
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.factors import Names

Producer = Callable[[Value], Node | None]
Element = tuple[Value, Names]
"""A value, and the factor of each of its dims."""
_READ_THROUGH = ("transpose", "reshape", "broadcast_in_dim")


def parts_of(indices: Iterable[Index]) -> dict[Var, tuple[int, ...]] | None:
    """Return, for each variable, the sizes of the loops into which it must be split (major to minor).

    Returns None if the loops that different indices need do not nest.
    """
    cuts: dict[Var, set[int]] = {}
    stack = [e for index in indices for e in index]
    while stack:
        for atom, _ in stack.pop().terms:
            if isinstance(atom, Quotient | Remainder):
                if len(atom.of.terms) == 1 and not atom.of.const and isinstance(atom.of.terms[0][0], Var):
                    cuts.setdefault(atom.of.terms[0][0], set()).add(atom.by)
                stack.append(atom.of)
    sizes: dict[Var, tuple[int, ...]] = {}
    for var, divisors in cuts.items():
        steps = [1, *sorted(divisors), var.high + 1]
        if any(step % previous_step for previous_step, step in itertools.pairwise(steps)):
            return None
        sizes[var] = tuple(step // previous_step for previous_step, step in itertools.pairwise(steps))[::-1]
    return sizes


def split_variable(text: str, size: int, parts: Sequence[int]) -> Expr:
    """Return the variable `text` of size `size` as a linear expression of the loops of sizes `parts`."""
    return ex.linearize([ex.variable(f"{text}_{i}" if len(parts) > 1 else text, n) for i, n in enumerate(parts or (size,))], parts or (size,))  # fmt: skip


def loops_of(expr: Expr, size: int) -> tuple[Var, ...] | None:
    """Return the variables (major to minor) over whose combinations `expr` iterates, in a dim of `size` elements.

    Returns None if `expr` has another form.
    """
    terms = sorted(expr.terms, key=lambda term: -term[1])
    loops = tuple(atom for atom, _ in terms if isinstance(atom, Var))
    sizes = [var.high + 1 for var in loops]
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    is_whole = len(loops) == len(terms) and not expr.const and math.prod(sizes) == size
    return loops if is_whole and [factor for _, factor in terms] == strides else None


class Layouts:
    """Writes the layout ops that give operands of an attention one dim per loop. The ops are in `graph`."""

    def __init__(self, producer: Producer) -> None:
        self.producer, self.graph = producer, Graph("")
        self.names: Mapping[Var, str] = {}
        self.seen: dict[Index, None] = {}  # all indices at which values were read, in order
        self._made: dict[tuple[Value, Names, str], Value] = {}

    def chain(self, value: Value, index: Index) -> Iterator[tuple[Value, Index]]:
        """Yield the value read at `index`, then each earlier value behind layout ops and at most one conversion, with
        its index.
        """
        is_converted = False
        while True:
            self.seen.setdefault(index)
            yield value, index
            node = self.producer(value)
            if node is None or node.op not in (*_READ_THROUGH, "convert") or (node.op == "convert" and is_converted):
                return
            is_converted |= node.op == "convert"
            index, value = index if node.op == "convert" else backward(node, index), node.operands[0]

    def element(self, value: Value, index: Index, *, is_whole: bool = False) -> Element | None:
        """Return the source of `value` in the form of one dim per loop, found upstream through layout ops.

        A conversion stays before a broadcast that repeats its result, but layout ops alone cause no second conversion.

        Args:
            is_whole: whether the returned value must vary with every variable of the index.
        Returns:
            The source and its factor names, or None if no value upstream has one loop per dim.
        """
        source_with_loops = None
        varies = {v for place in index for v in variables(place)}
        for source, place in self.chain(value, index):
            if is_whole and varies != {v for each in place for v in variables(each)}:
                break
            if source.type.dtype != value.type.dtype and source.type.size >= value.type.size:
                continue
            if (loops := self._loops(source, place)) is not None and all(len(each) <= 1 for each in loops):
                source_with_loops = source, loops
        if source_with_loops is None and (loops := self._loops(value, index)) is not None:
            source_with_loops = value, loops
        if source_with_loops is None:
            return None
        names = tuple(self.names[var] for each in source_with_loops[1] for var in each)
        if len({*names}) != len(names):
            return None
        return self._in_loops(source_with_loops[0], source_with_loops[1], names, value.type.dtype), names

    def _loops(self, value: Value, index: Index) -> list[tuple[Var, ...]] | None:
        loops = [loops_of(expr, size) for expr, size in zip(index, value.type.sizes, strict=True)]
        plain_loops = [dim_loops for dim_loops in loops if dim_loops is not None]
        is_named = len(plain_loops) == len(loops) and all(
            var in self.names for dim_loops in plain_loops for var in dim_loops
        )
        return plain_loops if is_named else None

    def _in_loops(self, value: Value, loops: Sequence[tuple[Var, ...]], names: Names, dtype: str) -> Value:
        """Return `value` in `dtype`, without dims of size 1, and with one dim for each loop in `loops`."""
        shape = tuple(var.high + 1 for dim_loops in loops for var in dim_loops)
        if (shape, dtype) == (value.type.sizes, value.type.dtype):
            return value
        key = value, names, dtype
        if key not in self._made:
            builder = Builder(self.graph, value.loc)
            self._made[key] = builder.convert(builder.shaped(value, shape), dtype)
        return self._made[key]
