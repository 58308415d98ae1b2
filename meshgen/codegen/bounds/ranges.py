"""Ranges of index expressions in the lanes where a set of facts holds."""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.codegen.bounds.values import Fact, Need
from meshgen.codegen.expr import Atom, Expr, Quotient, Remainder, Var, atom_bounds

_MOST_SUMS = 10  # Most facts with several terms that are used. Chosen: `bounds` tries all sequences of these facts.
_ROUNDS = 3  # rounds of propagation between the terms of a sum. Chosen: later rounds narrow little


class Ranges:
    """Propagates facts to the ranges of variables, then bounds expressions.

    A fact with one term narrows the range of that atom, and of the dividend if the atom is a quotient. A fact with
    several terms also bounds their sum: `4*x + y <= 9` bounds `8*x + 2*y + z` by 18 plus the range of z.

    Attributes:
        is_empty: whether the facts contradict each other, so that they hold in no lane.
    """

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._atoms: dict[Atom, tuple[int, int]] = {}
        self._sums: list[Fact] = []
        self.is_empty = False
        waiting = list(facts)
        while usable := [fact for fact in waiting if all(self.holds(need) for need in fact.needs)]:
            for fact in usable:
                self._learn(fact.expr, fact.low, fact.high)
            self._share()
            waiting = [fact for fact in waiting if fact not in usable]

    def holds(self, need: Need) -> bool:
        """Whether a need is met in every lane where the facts hold."""
        low, high = self.bounds(need.expr)
        return self.is_empty or (need.low <= low and high <= need.high)

    def bounds(self, expr: Expr, first: int = 0) -> tuple[int, int]:
        """Return a lower and an upper bound of the values of `expr`. The range may be too large, never too small.

        Facts before position `first` are not used, so that the recursion uses each fact at most once.
        """
        expr = _with_remainders(expr)
        low, high = self._plain(expr, first)
        table = dict(expr.terms)
        for number, fact in enumerate(self._sums[first:], first):
            atom, factor = fact.expr.terms[0]
            times, rest = divmod(table.get(atom, 0), factor)
            if not times or rest:
                continue
            ends = (fact.low * times, fact.high * times)
            rest_bounds = self.bounds(expr - fact.expr * times, number + 1)
            low, high = max(low, rest_bounds[0] + min(ends)), min(high, rest_bounds[1] + max(ends))
        return low, high

    def _plain(self, expr: Expr, first: int = 0) -> tuple[int, int]:
        low = high = expr.const
        for atom, factor in expr.terms:
            ends = [end * factor for end in self._range(atom, first)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _range(self, atom: Atom, first: int = 0) -> tuple[int, int]:
        low, high = atom_bounds(atom)
        if not isinstance(atom, Var):
            least, most = self.bounds(atom.of, first)
            if isinstance(atom, Quotient):
                low, high = max(low, least // atom.by), min(high, most // atom.by)
            elif least // atom.by == most // atom.by:
                low, high = least % atom.by, most % atom.by
        narrowed = self._atoms.get(atom)
        return (low, high) if narrowed is None else (max(low, narrowed[0]), min(high, narrowed[1]))

    def _learn(self, expr: Expr, low: int, high: int) -> None:
        """Record that `low <= expr <= high`."""
        low, high = low - expr.const, high - expr.const
        if len(expr.terms) > 1 and len(self._sums) < _MOST_SUMS:
            self._sums.append(Fact(Expr(expr.terms), low, high))
        elif len(expr.terms) == 1:
            self._narrow(*expr.terms[0], low, high)
        elif not expr.terms and (low > 0 or high < 0):
            self.is_empty = True

    def _narrow(self, atom: Atom, factor: int, low: int, high: int) -> None:
        """Record that `low <= atom * factor <= high`."""
        least, most = (-(-low // factor), high // factor) if factor > 0 else (-(-high // factor), low // factor)
        before = self._range(atom)
        least, most = max(least, before[0]), min(most, before[1])
        self.is_empty |= least > most
        if self.is_empty or (least, most) == before:
            return
        self._atoms[atom] = (least, most)
        if isinstance(atom, Quotient) and len(atom.of.terms) == 1:
            base = atom.of.const
            self._narrow(*atom.of.terms[0], least * atom.by - base, most * atom.by + atom.by - 1 - base)

    def _share(self) -> None:
        """Narrow the range of each term of a fact by the ranges of the fact's other terms."""
        for _ in range(_ROUNDS):
            for fact in self._sums:
                for atom, factor in fact.expr.terms:
                    if self.is_empty:
                        return
                    low, high = self._plain(Expr(tuple(term for term in fact.expr.terms if term[0] != atom)))
                    self._narrow(atom, factor, fact.low - high, fact.high - low)


def _with_remainders(expr: Expr) -> Expr:
    """Rewrite `x - x // c * c` as `x % c`, whose range is known."""
    table = dict(expr.terms)
    for atom, factor in expr.terms:
        if not isinstance(atom, Quotient) or factor % atom.by:
            continue
        times = -factor // atom.by
        if all(table.get(inner) == f * times for inner, f in atom.of.terms):
            rest = {a: f for a, f in table.items() if a != atom and a not in dict(atom.of.terms)}
            rest[Remainder(atom.of, atom.by)] = times + rest.get(Remainder(atom.of, atom.by), 0)
            return Expr(tuple(rest.items()), expr.const - atom.of.const * times)
    return expr
