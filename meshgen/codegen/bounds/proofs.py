"""Proofs that an access stays in bounds of its operand in every lane that its mask enables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.bounds.ranges import Ranges
from meshgen.codegen.bounds.values import Exact, Fact, Need, Number
from meshgen.codegen.expr import Expr, Quotient, Remainder, Var

_MOST_POINTS = 2**18  # most points of an exhaustive enumeration. Chosen: bounds the compile time
_MOST_VALUE = 2**62  # largest magnitude of an expression at a point, so that 64-bit arithmetic does not overflow
_DEPTH = 2  # nesting depth of variable splits. Chosen: bounds the compile time


class Question(NamedTuple):
    """The claim that `0 <= offset < size` wherever `facts` hold, and that `needs` are met there.

    If the needs are met, the generated source computes this offset.
    """

    offset: Expr
    needs: tuple[Need, ...]
    facts: tuple[Fact, ...]
    size: int


def prove(question: Question, definitions: Mapping[Var, Number], opened: Sequence[Callable[[Var], bool]]) -> bool:
    """Whether the claim `question` can be proven.

    Ranges are tried first: with every name as a separate variable, and with names replaced by their definitions. Then
    variables are split. Finally, all points are enumerated, if there are few.

    Args:
        definitions: maps a variable that names an expression to this expression.
        opened: predicates that select the names to replace, tried in order.
    """
    variants = [question]
    for choice in opened:
        variants.append(expanded_question(question, {v: n for v, n in definitions.items() if choice(v)}))
    variants = list(dict.fromkeys(variants))
    if any(_by_ranges(variant) for variant in variants):
        return True
    return any(_by_parts(variant, _DEPTH) for variant in variants) or any(_by_points(variant) for variant in variants)


def _by_ranges(question: Question) -> bool:
    ranges = Ranges(question.facts)
    inside = Need(question.offset, 0, question.size - 1)
    return all(ranges.holds(need) for need in (*question.needs, inside))


def expanded_question(question: Question, table: Mapping[Var, Number]) -> Question:
    """Return the question with the variables in `table` replaced by their definitions, recursively."""
    needs = dict.fromkeys(question.needs)

    def replaced(expr: Expr, more: dict[Need, None]) -> Expr:
        while inner := {v: table[v] for v in ex.variables(expr) if v in table}:
            more.update(dict.fromkeys(need for number in inner.values() for need in number.needs))
            expr = ex.substitute(expr, {v: number.expr for v, number in inner.items()})
        return expr

    def all_replaced(needs_to_expand: Iterable[Need]) -> tuple[Need, ...]:
        expanded, waiting = dict[Need, None](), dict.fromkeys(needs_to_expand)
        while waiting:
            need = waiting.popitem()[0]
            expanded[Need(replaced(need.expr, waiting), need.low, need.high)] = None
        return tuple(expanded)

    offset = replaced(question.offset, needs)
    facts: list[Fact] = []
    for fact in question.facts:
        fact_needs = dict.fromkeys(fact.needs)
        expr = replaced(fact.expr, fact_needs)
        facts.append(Fact(expr, fact.low, fact.high, all_replaced(fact_needs)))
    return Question(offset, all_replaced(needs), tuple(facts), question.size)


def _by_parts(question: Question, depth: int) -> bool:
    splits = _splits(question)
    return any(_by_ranges(split) or (depth > 1 and _by_parts(split, depth - 1)) for split in splits)


def _splits(question: Question) -> Iterator[Question]:
    """Yield copies of the question with a variable split, one for each quotient or remainder of a variable in a fact.

    For the fact `i % 128 < 64`, the split is i = 128 * block + rest. The facts then bound `rest` directly.
    """
    for atom in dict.fromkeys(a for fact in question.facts for a in _inner(fact.expr)):
        (var, sign), *further_terms = atom.of.terms
        if further_terms or not isinstance(var, Var) or abs(sign) != 1:
            continue
        low, high = ex.bounds(atom.of)
        block = Var(f"{var.text} by {atom.by}", low // atom.by, high // atom.by)
        rest = Var(f"{var.text} within {atom.by}", 0, atom.by - 1)
        parts = Expr(((block, atom.by), (rest, 1)))
        table = {var: (parts - atom.of.const) * sign}
        facts = [f._replace(expr=ex.substitute(f.expr, table), needs=_replaced(f.needs, table)) for f in question.facts]
        facts.append(Fact(table[var], var.low, var.high))
        offset = ex.substitute(question.offset, table)
        yield Question(offset, _replaced(question.needs, table), tuple(facts), question.size)


def _inner(expr: Expr) -> Iterator[Quotient | Remainder]:
    """Yield the quotients and remainders in an expression, the innermost first."""
    for atom, _ in expr.terms:
        if not isinstance(atom, Var):
            yield from _inner(atom.of)
            yield atom


def _replaced(needs: Iterable[Need], table: Mapping[Var, Expr]) -> tuple[Need, ...]:
    return tuple(need._replace(expr=ex.substitute(need.expr, table)) for need in needs)


def _by_points(question: Question) -> bool:
    """Whether the claim holds for all values of the variables. Returns False if there are too many values to enumerate."""
    facts = question.facts
    exprs = [question.offset, *(n.expr for n in question.needs), *(f.expr for f in facts)]
    exprs += [need.expr for fact in facts for need in fact.needs]
    leaves = list(dict.fromkeys(v for e in exprs for v in ex.variables(e)))
    if math.prod(v.high - v.low + 1 for v in leaves) > _MOST_POINTS:
        return False
    if any(max(map(abs, ex.bounds(e))) > _MOST_VALUE for e in exprs):
        return False
    axes = np.ogrid[tuple(slice(v.low, v.high + 1) for v in leaves)] if leaves else []
    table = dict(zip(leaves, (np.asarray(axis, np.int64) for axis in axes), strict=True))
    met = [between(Need(f.expr, f.low, f.high), table) | ~all_hold(f.needs, table) for f in facts]
    inside = all_hold((*question.needs, Need(question.offset, 0, question.size - 1)), table)
    lanes = np.asarray(True)
    for fact_holds in met:
        lanes = lanes & fact_holds
    return bool(np.all(inside | ~lanes))


def all_hold(needs: Iterable[Need], table: Mapping[Var, Exact]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return, for each point in `table` (arrays of variable values), whether all needs are met."""
    are_met = np.asarray(True)
    for need in needs:
        are_met = are_met & between(need, table)
    return are_met


def between(need: Need, table: Mapping[Var, Exact]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return, for each point in `table`, whether `low <= expr <= high` of a need or fact holds."""
    value = values_of(need.expr, table)
    return (value >= max(need.low, -_MOST_VALUE)) & (value <= min(need.high, _MOST_VALUE))


def values_of(expr: Expr, table: Mapping[Var, Exact]) -> Exact:
    """Return the value of `expr` at each point in `table`, which maps variables to arrays of values."""
    total = np.asarray(expr.const, np.int64)
    for atom, factor in expr.terms:
        if isinstance(atom, Var):
            part = table[atom]
        else:
            inner = values_of(atom.of, table)
            part = inner // atom.by if isinstance(atom, Quotient) else inner % atom.by
        total = total + part * factor
    return total
