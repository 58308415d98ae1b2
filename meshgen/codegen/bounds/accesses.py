"""Abstract interpretation of a kernel's index code, which collects the loads and stores, each with a claim to prove.

    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)         i: 0 .. 1023
    x = tl.load(x_ptr + i % 5 * 3 + i // 5, mask=i < 15)       0 <= i % 5 * 3 + i // 5 < 15 where i < 15

Every name becomes a variable with a range. Its definition is used only if ranges do not suffice. Values that the index
code does not define are unknown. Bounds of data-dependent indices come from the clamp around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from meshgen.codegen import expr as ex
from meshgen.codegen.bounds.arithmetic import Arithmetic
from meshgen.codegen.bounds.proofs import Question, prove
from meshgen.codegen.bounds.values import LANE, Condition, Fact, Known, Number, Pointer, fits
from meshgen.codegen.expr import Expr, Quotient, Var
from meshgen.codegen.index_code import (
    Advance,
    Branch,
    Comparison,
    Describe,
    Int,
    Let,
    Loop,
    Statement,
    Touch,
    rendered_terms,
    summands,
)
from meshgen.codegen.index_code import Condition as Test


class Access(NamedTuple):
    """A load or store of a kernel.

    Attributes:
        number: the position of the access among all accesses, in the order of the text.
        names: the pointer parameters whose memory the access may touch.
        question: the claim to prove, or None if the address is unknown.
        trips: how often a program executes the access, as far as that is known.
    """

    number: int
    text: str
    names: tuple[str, ...]
    question: Question | None
    trips: int


class Given(NamedTuple):
    """Facts about a launch that the interpreter assumes.

    Attributes:
        sizes: number of elements behind each pointer parameter.
        counts: number of values that each other parameter can have, starting at 0.
        programs: size of the first dim of the grid; the other dims have size 1.
        constants: values of the compile-time parameters.
    """

    sizes: Mapping[str, int]
    counts: Mapping[str, int]
    programs: int
    constants: Mapping[str, int]


def unproven(code: Sequence[Statement], given: Given) -> list[Access]:
    """Return the loads and stores of a kernel that are not proven to stay in bounds in every lane that their masks
    enable.
    """
    touched, numbers = accesses(code, given)
    return [access for access in touched if not is_inside(access, numbers)]


def is_inside(access: Access, numbers: Arithmetic) -> bool:
    """Whether it can be proven that `access` stays in bounds in every lane that its mask enables."""
    return access.question is not None and prove(access.question, numbers.definitions, numbers.choices())


def accesses(code: Sequence[Statement], given: Given) -> tuple[list[Access], Arithmetic]:
    """Return the loads and stores of a kernel, and the definitions of its names."""
    interpreter = _Interpreter(given)
    interpreter.block(code)
    return interpreter.found, interpreter.numbers


class _Interpreter:
    """Interprets index code. `env` maps each name to its abstract value at the current statement."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.found: list[Access] = []
        self.trips = 1  # product of the trip counts of the loops around the current statement
        self.numbers = Arithmetic()
        self.env: dict[str, Known] = {name: Pointer((name,), ex.ZERO) for name in given.sizes}
        self.env |= {name: Number(ex.constant(value)) for name, value in given.constants.items()}
        for name, count in given.counts.items():
            self.env[name] = Number(self.numbers.uniform(name, 0, count - 1), 32)

    # ---- statements

    def block(self, code: Sequence[Statement]) -> None:
        for statement in code:
            match statement:
                case Let(name, Test() as test):
                    self.env[name] = self._condition(test)
                case Let(name, Int() as value):
                    self.env[name] = self.numbers.named(name, self.value(value))
                case Advance(name, by):
                    self.env[name] = self._moved(self.env.get(name), [(1, by)])
                case Touch(text, address, mask):
                    condition = self._condition(mask)
                    self._note(text, self.value(address), condition.facts if isinstance(condition, Condition) else ())
                case Describe():
                    self._describe(statement)
                case Loop(name, ends, body):
                    self._loop(name, ends, body)
                case Branch(test, body, otherwise):
                    self._branches(test, body, otherwise)
                case Let():
                    raise AssertionError("a value is an integer or a condition")

    def _branches(self, test: str, body: Sequence[Statement], otherwise: Sequence[Statement]) -> None:
        """Interpret both bodies of a branch and join the values that they assign. All lanes of a program take the same
        body.
        """
        before = dict(self.env)
        for comparison in test.comparisons if isinstance(test, Test) else ():
            number, end = self.value(comparison.left), self.value(comparison.right)
            if comparison.left.op == "name" and isinstance(number, Number) and _is_constant(end):
                self.env[comparison.left.text] = self.numbers.narrowed(number, comparison.relation, end.expr.const)
        self.block(body)
        env_after, self.env = self.env, before
        self.block(otherwise)
        for name in {**env_after, **self.env}:
            self.env[name] = _either(env_after.get(name), self.env.get(name))

    def _loop(self, name: str, ends: Sequence[Int], body: Sequence[Statement]) -> None:
        # Program p of P programs runs the loop iterations p, p + P, p + 2 P, ...
        if ends[0].op == "program_id":
            count = self.value(ends[1])
            assert _is_constant(count)
            self.env[name] = self.numbers.programs(count.expr.const)
            self.block(body)
            return
        changed = list(_targets(body))
        numbers = [self.value(end) for end in ends]
        trips = self._trips(numbers)
        if trips is None:
            self.env |= dict.fromkeys((*changed, name))
            self.block(body)
            self.env |= dict.fromkeys((*changed, name))
            return
        if not trips:
            return
        count = self.numbers.uniform(name, 0, len(trips) - 1, is_loop=True)
        for other in dict.fromkeys(name_in_body for name_in_body in changed if name_in_body in self.env):
            self.env[other] = self._carried(other, count, body, changed.count(other))
        counter = count * trips.step + trips.start
        # The loop's start is unknown, so the counter is a variable in the widest range.
        if not all(isinstance(n, Number) and n.expr.is_constant for n in numbers):
            counter = self.numbers.uniform(name, trips.start, trips.stop - 1, is_loop=True)
        self.env[name] = Number(counter, 32)
        self.trips *= len(trips)
        self.block(body)
        self.trips //= len(trips)
        self.env |= dict.fromkeys((*changed, name))

    def _trips(self, ends: Sequence[Known]) -> range | None:
        """Return the longest range of a loop counter, or None if the loop's ends depend on data."""
        ranges = [self.numbers.sure(end) for end in ends if isinstance(end, Number)]
        if len(ranges) < len(ends):
            return None
        least, most = ([end[side] for end in ranges] for side in (0, 1))
        if least == most:
            return range(*most)
        return range(least[0], most[1], *most[2:]) if least[2:] == most[2:] else None

    def _carried(self, name: str, count: Expr, body: Sequence[Statement], times: int) -> Known:
        """Return the value of a loop-carried name at the start of an iteration.

        Returns None (unknown) for all values except an address that each iteration advances by a constant.
        """
        start = self.env[name]
        steps = [
            self.value(statement.by)
            for statement in body
            if isinstance(statement, Advance) and statement.target == name
        ]
        if not isinstance(start, Pointer) or times != 1 or not steps or not _is_constant(steps[0]):
            return None
        return Pointer(start.names, start.offset + count * steps[0].expr.const, start.needs)

    # ---- expressions

    def value(self, value: Int) -> Known:
        """Return the abstract value of an integer expression."""
        match value.op, value.args:
            case "number", (int(number),):
                return Number(ex.constant(number))
            case "name", (str(name),):
                return self.env.get(name)
            case "index", (Expr() as expr,):
                return self._index(expr)
            case "+" | "-" | "*" | "//" | "%" as op, (Int() as left, Int() as right):
                return self._combined(self.value(left), op, self.value(right))
            case "moved", (Int() as pointer, Int() as offset):
                return self._moved(self.value(pointer), list(summands(offset)))
            case "minimum" | "maximum" as function, (Int() as left, Int() as right):
                return self.numbers.extremum(self.value(left), self.value(right), function == "minimum")
            case "where", (Int() as left, Int() as right):
                return self.numbers.hull(self.value(left), self.value(right))
            case "to", (Int() as inner, str(kind)):
                return self.numbers.converted(self.value(inner), kind)
            case "turned", (Int() as inner, str(side)):
                return self.numbers.turned(self.value(inner), side)
            case "program_id", _:
                return self.numbers.programs(self.given.programs)
            case "arange", (Int() as count,):
                stop = self.value(count)
                assert _is_constant(stop)
                return Number(ex.variable(f"{LANE} of {stop.expr.const}", stop.expr.const), 32)
            case _:
                return None

    def _combined(self, left: Known, op: str, right: Known) -> Known:
        if isinstance(left, Pointer) and op in ("+", "-"):
            return self._after(left, 1 if op == "+" else -1, right)
        if isinstance(left, Number) and isinstance(right, Number):
            return self.numbers.combined(left, op, right)
        return None

    def _index(self, expr: Expr) -> Known:
        """Return the value of an index expression as registers compute it, term by term in the order in which it is
        printed.
        """
        total: Known = None
        for atom, factor in rendered_terms(expr):
            part = self.env.get(atom.text) if isinstance(atom, Var) else self._divided(atom.of, atom)
            if abs(factor) != 1:
                part = self._combined(part, "*", Number(ex.constant(abs(factor))))
            if total is None and factor > 0:
                total = part
            else:
                total = self._combined(total or Number(ex.ZERO), "+" if factor > 0 else "-", part)
            if total is None:
                return None
        if total is None:
            return Number(ex.constant(expr.const))
        return (
            self._combined(total, "+" if expr.const > 0 else "-", Number(ex.constant(abs(expr.const))))
            if expr.const
            else total
        )

    def _divided(self, of: Expr, atom: Quotient | ex.Remainder) -> Known:
        op = "//" if isinstance(atom, Quotient) else "%"
        return self._combined(self._index(of), op, Number(ex.constant(atom.by)))

    def _moved(self, pointer: Known, offsets: Sequence[tuple[int, Int]]) -> Known:
        """Return the address after adding `offsets` to `pointer` one after the other."""
        for sign, offset in offsets:
            pointer = self._after(pointer, sign, self.value(offset))
        return pointer

    def _after(self, pointer: Known, sign: int, by: Known) -> Known:
        if not isinstance(pointer, Pointer) or not isinstance(by, Number):
            return None
        needs = tuple(dict.fromkeys((*pointer.needs, *fits(by))))
        return Pointer(pointer.names, pointer.offset + by.expr * sign, needs)

    def _condition(self, test: str) -> Known:
        """Return the facts that hold in the lanes where the condition `test` is true."""
        if not isinstance(test, Test):
            return self.env.get(test)
        conditions = [self._compared(condition) for condition in test.comparisons] + [
            self.env.get(name) for name in test.names
        ]
        facts = dict.fromkeys(
            fact for condition in conditions if isinstance(condition, Condition) for fact in condition.facts
        )
        return Condition(tuple(facts))

    def _compared(self, comparison: Comparison) -> Condition:
        return self.numbers.compared(self.value(comparison.left), comparison.relation, self.value(comparison.right))

    # ---- accesses

    def _describe(self, tensor: Describe) -> None:
        address, facts = self.value(tensor.start), list[Fact]()
        for size, stride in zip(map(self.value, tensor.sizes), tensor.strides, strict=True):
            if not isinstance(address, Pointer) or not isinstance(size, Number):
                address = None
                continue
            coordinate = ex.variable("row or column", max(1, self.numbers.sure(size)[1]))
            facts += self.numbers.compared(Number(coordinate), "<", size).facts
            address = Pointer(address.names, address.offset + coordinate * stride, address.needs)
        self._note(tensor.text, address, tuple(facts))

    def _note(self, text: str, address: Known, facts: tuple[Fact, ...]) -> None:
        names, question = tuple[str, ...](), None
        if isinstance(address, Pointer):
            names, size = address.names, min(self.given.sizes[name] for name in address.names)
            question = Question(address.offset, address.needs, facts, size)
        self.found.append(Access(len(self.found), text, names, question, self.trips))


def _targets(body: Sequence[Statement]) -> Iterator[str]:
    """Yield the names that the statements of a body assign, once for each assignment."""
    for statement in body:
        match statement:
            case Let(target) | Advance(target):
                yield target
            case Loop(target, _, inner):
                yield target
                yield from _targets(inner)
            case Branch(_, inner, otherwise):
                yield from _targets(inner)
                yield from _targets(otherwise)
            case _:
                pass


def _is_constant(value: Known) -> TypeGuard[Number]:
    return isinstance(value, Number) and value.expr.is_constant


def _either(left: Known, right: Known) -> Known:
    """Return the join of two abstract values, or None if nothing is known about the join."""
    if left == right:
        return left
    if isinstance(left, Pointer) and isinstance(right, Pointer) and left.offset == right.offset:
        needs = tuple(dict.fromkeys((*left.needs, *right.needs)))
        return Pointer(tuple(dict.fromkeys((*left.names, *right.names))), left.offset, needs)
    return None
