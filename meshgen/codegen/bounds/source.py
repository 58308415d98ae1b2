"""Reads the source of a kernel as a GPU would run it, and proves each of its loads and stores.

    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)         i: 0 .. 1023
    x = tl.load(x_ptr + i % 5 * 3 + i // 5, mask=i < 15)       0 <= i % 5 * 3 + i // 5 < 15 where i < 15

The analysed text is the compiled one, so bugs of its generator are found. Every assigned name
becomes a variable with a range; its definition is used only where the ranges do not suffice. Unknown calls give
unknown values; bounds of data-dependent indices come from the clamp around them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from meshgen.codegen import expr as ex
from meshgen.codegen.bounds.arithmetic import Arithmetic
from meshgen.codegen.bounds.prove import Question, prove
from meshgen.codegen.bounds.values import LANE, Condition, Fact, Known, Number, Pointer, fits
from meshgen.codegen.canonical_source import function_of, walked
from meshgen.codegen.expr import Expr


class Access(NamedTuple):
    """A load or store of the source: its number in the order of the text, and the parameters that it may touch.

    Attributes:
        question: what was to prove; None where nothing is known of the address.
        trips: how often a program runs it, as far as that is known.
    """

    number: int
    text: str
    names: tuple[str, ...]
    is_proven: bool
    question: Question | None = None
    trips: int = 1


class Given(NamedTuple):
    """The known facts of a launch.

    Attributes:
        sizes: elements that each pointer parameter points to.
        counts: how many values each other parameter can have, from 0 on.
        programs: of the grid's first dim; the others have one.
        constants: values of the compile-time parameters.
    """

    sizes: Mapping[str, int]
    counts: Mapping[str, int]
    programs: int
    constants: Mapping[str, int]


def accesses(text: str, entry: str, given: Given) -> list[Access]:
    """All loads and stores of a kernel, and whether each is inside in every lane that its mask lets through."""
    return read(text, entry, given)[0]


def read(text: str, entry: str, given: Given) -> tuple[list[Access], Arithmetic]:
    """The loads and stores of a kernel, and what its names stand for."""
    function = function_of(text, entry)
    assert function is not None, f"unknown function '{entry}' of the source"
    reader = _KernelReader(given)
    reader.block(function.body)
    return reader.found, reader.numbers


class _KernelReader:
    """`env` holds the abstract value of each name at the current statement."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.found: list[Access] = []
        self.trips = 1  # of the loops around the current statement
        self.numbers = Arithmetic()
        self.env: dict[str, Known] = {name: Pointer((name,), ex.ZERO) for name in given.sizes}
        self.env |= {name: Number(ex.constant(value)) for name, value in given.constants.items()}
        for name, count in given.counts.items():
            self.env[name] = Number(self.numbers.same_in_all_lanes(name, 0, count - 1), 32)

    # ---- statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Assign([ast.Name(name)], value):
                    self.env[name] = self.numbers.named(name, self.value(value))
                case ast.Assign([ast.Tuple(names)], value):  # results of a function: nothing is known of them
                    self.value(value)
                    self.env |= dict.fromkeys(name.id for name in names if isinstance(name, ast.Name))
                case ast.AugAssign(ast.Name(name), op, value):
                    self.env[name] = self.numbers.named(name, self._binary(self.env.get(name), op, self.value(value)))
                case ast.Expr(value):
                    self.value(value)
                case ast.For(
                    ast.Name(name), ast.Call(ast.Name("range") | ast.Attribute(ast.Name("tl"), "range"), ends), inner
                ):
                    self._loop(name, ends, inner)
                case ast.If(test, inner, other):
                    self._branches(test, inner, other)
                case ast.Pass():
                    pass
                case _:
                    raise AssertionError(f"unknown statement in a kernel: {ast.unparse(statement)}")

    def _branches(self, test: ast.expr, body: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        """Bodies of which one runs, as all lanes of a program have it."""
        self.value(test)
        before = dict(self.env)
        for name, number in before.items():
            if isinstance(number, Number):
                self.env[name] = self._narrowed(name, number, test)
        self.block(body)
        after, self.env = self.env, before
        self.block(other)
        for name in {**after, **self.env}:
            self.env[name] = _either(after.get(name), self.env.get(name))

    def _narrowed(self, name: str, number: Number, test: ast.expr) -> Number:
        """A number that is the same in all lanes, where comparisons with constants hold."""
        match test:
            case ast.BinOp(left, ast.BitAnd(), right):
                return self._narrowed(name, self._narrowed(name, number, left), right)
            case ast.Compare(ast.Name(compared), [op], [bound]) if compared == name:
                end = self.value(bound)
                return self.numbers.narrowed(number, op, end.expr.const) if _is_constant(end) else number
            case _:
                return number

    def _loop(self, name: str, ends: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        if (programs := self._programs(ends)) is not None:
            self.env[name] = programs
            self.block(body)
            return
        changed = _stores(body)
        numbers = [self.value(end) for end in ends]
        trips = self._trips(numbers)
        if trips is None:
            self.env |= dict.fromkeys((*changed, name))
            self.block(body)
            self.env |= dict.fromkeys((*changed, name))
            return
        if not trips:
            return
        count = self.numbers.same_in_all_lanes(name, 0, len(trips) - 1, is_loop=True)
        for other in changed.keys() & self.env.keys():
            self.env[other] = self._carried(other, count, changed[other])
        counter = count * trips.step + trips.start
        if not all(isinstance(n, Number) and n.expr.is_constant for n in numbers):  # its first value is not known
            counter = self.numbers.same_in_all_lanes(name, trips.start, trips.stop - 1, is_loop=True)
        self.env[name] = Number(counter, 32)
        self.trips *= len(trips)
        self.block(body)
        self.trips //= len(trips)
        self.env |= dict.fromkeys((*changed, name))

    def _programs(self, ends: Sequence[ast.expr]) -> Known:
        """The counter of a loop over what all programs share: from the program's number on, in steps; None for other loops."""
        match ends:
            case [ast.Call(ast.Attribute(ast.Name("tl"), "program_id")), ast.Constant(int(stop)), _]:
                return self.numbers.programs(stop)
            case _:
                return None

    def _trips(self, ends: Sequence[Known]) -> range | None:
        """The values of a loop's counter, and as many trips as it can have; ends that a program computes have ranges. None if its ends are data."""
        known = [self.numbers.sure(end) for end in ends if isinstance(end, Number)]
        if len(known) < len(ends):
            return None
        least, most = ([end[side] for end in known] for side in (0, 1))
        if least == most:
            return range(*most)
        return range(least[0], most[1], *most[2:]) if least[2:] == most[2:] else None

    def _carried(self, name: str, count: Expr, stores: Sequence[ast.stmt]) -> Known:
        """The value of a loop-carried name at the start of an iteration: known for a pointer with a constant increment."""
        start = self.env[name]
        if not isinstance(start, Pointer) or len(stores) != 1:
            return None
        match stores[0]:
            case ast.AugAssign(_, ast.Add(), value) if (
                isinstance(step := self.value(value), Number) and step.expr.is_constant
            ):
                return Pointer(start.names, start.offset + count * step.expr.const, start.needs)
            case _:
                return None

    # ---- expressions

    def value(self, node: ast.expr) -> Known:
        match node:
            case ast.Constant(bool()):
                return None
            case ast.Constant(int(number)) if number < 2**63:
                return Number(ex.constant(number))
            case ast.Name(name):
                return self.env.get(name)
            case ast.UnaryOp(ast.USub(), operand):
                return self._binary(Number(ex.ZERO), ast.Sub(), self.value(operand))
            case ast.BinOp(left, op, right):
                return self._binary(self.value(left), op, self.value(right))
            case ast.Compare(left, [op], [right]):
                return self.numbers.compared(self.value(left), op, self.value(right))
            case ast.Subscript(inner, ast.Tuple() as side):
                return self.numbers.turned(self.value(inner), ast.unparse(side))
            case ast.Call():
                return self._call(node)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                return None

    def _binary(self, left: Known, op: ast.operator, right: Known) -> Known:
        match left, right:
            case Number(), Number():
                return self.numbers.combined(left, op, right)
            case Condition(), Condition() if isinstance(op, ast.BitAnd):
                return Condition(tuple(dict.fromkeys((*left.facts, *right.facts))))
            case Pointer(names, offset, needs), Number() if isinstance(op, ast.Add | ast.Sub):
                moved = offset + right.expr * (1 if isinstance(op, ast.Add) else -1)
                return Pointer(names, moved, tuple(dict.fromkeys((*needs, *fits(right)))))
            case (Condition(), None) | (None, Condition()) if isinstance(op, ast.BitAnd):
                return left or right
            case _:
                return None

    def _call(self, node: ast.Call) -> Known:
        match node.func:
            case ast.Attribute(ast.Name("tl"), "load" | "store"):
                return self._access(node)
            case ast.Attribute(ast.Name("tl"), "make_tensor_descriptor"):
                return self._described(node)
            case ast.Attribute(ast.Name("tl"), name) if name in _CALLS:
                return _CALLS[name](self, [self.value(a) for a in node.args], node)
            case ast.Attribute(receiver, "to") if not isinstance(receiver, ast.Name) or receiver.id != "tl":
                inner = self.value(receiver)
                return (
                    self.numbers.converted(inner, ast.unparse(node.args[0]))
                    if node.args and not node.keywords
                    else None
                )
            case _:
                for argument in (*node.args, *(k.value for k in node.keywords)):
                    self.value(argument)
                return None

    def _access(self, node: ast.Call) -> None:
        address = self.value(node.args[0])
        for argument in node.args[1:]:
            self.value(argument)
        given = {k.arg: self.value(k.value) for k in node.keywords}
        mask = given.get("mask")
        facts = mask.facts if isinstance(mask, Condition) else ()
        self._judge(node, address, facts)

    def _described(self, node: ast.Call) -> None:
        """A tensor descriptor: copies of boxes touch nothing outside of the tensor, so all of that must be inside."""
        start, sizes, strides, _ = node.args
        address, facts = self.value(start), list[Fact]()
        assert isinstance(sizes, ast.List) and isinstance(strides, ast.List)
        for size, stride in zip(map(self.value, sizes.elts), map(self.value, strides.elts), strict=True):
            if not isinstance(address, Pointer) or not isinstance(size, Number) or not _is_constant(stride):
                address = None
                continue
            place = ex.variable("row or column", max(1, self.numbers.sure(size)[1]))
            facts += self.numbers.compared(Number(place), ast.Lt(), size).facts
            address = Pointer(address.names, address.offset + place * stride.expr.const, address.needs)
        self._judge(node, address, tuple(facts))

    def _judge(self, node: ast.Call, address: Known, facts: tuple[Fact, ...]) -> None:
        is_proven, names, question = False, tuple[str, ...](), None
        if isinstance(address, Pointer):
            names, size = address.names, min(self.given.sizes[name] for name in address.names)
            question = Question(address.offset, address.needs, facts, size)
            is_proven = prove(question, self.numbers.definitions, self.numbers.choices())
        self.found.append(Access(len(self.found), ast.unparse(node), names, is_proven, question, self.trips))


def _stores(body: Sequence[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """The names that the statements of a body assign: the statement around each place where one is assigned."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for node in walked(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.id, []).append(statement)
    return found


def _is_constant(known: Known) -> TypeGuard[Number]:
    return isinstance(known, Number) and known.expr.is_constant


def _either(left: Known, right: Known) -> Known:
    """The join of two abstract values."""
    if left == right:
        return left
    if isinstance(left, Pointer) and isinstance(right, Pointer) and left.offset == right.offset:
        needs = tuple(dict.fromkeys((*left.needs, *right.needs)))
        return Pointer(tuple(dict.fromkeys((*left.names, *right.names))), left.offset, needs)
    return None


def _program(reader: _KernelReader, args: Sequence[Known], node: ast.Call) -> Known:
    return reader.numbers.programs(reader.given.programs)


def _lanes(reader: _KernelReader, args: Sequence[Known], node: ast.Call) -> Known:
    start, stop = (arg.expr.const for arg in args if isinstance(arg, Number))
    return Number(ex.variable(f"{LANE} of {stop - start}", stop - start) + start, 32)


def _extremum(reader: _KernelReader, args: Sequence[Known], node: ast.Call) -> Known:
    least = isinstance(node.func, ast.Attribute) and node.func.attr == "minimum"
    return reader.numbers.extremum(args[0], args[1], least)


def _hull_of_both(reader: _KernelReader, args: Sequence[Known], node: ast.Call) -> Known:
    return reader.numbers.hull(args[1], args[2])


def _full(reader: _KernelReader, args: Sequence[Known], node: ast.Call) -> Known:
    return reader.numbers.converted(args[1], ast.unparse(node.args[2]))


_CALLS: dict[str, Callable[[_KernelReader, Sequence[Known], ast.Call], Known]] = {
    "program_id": _program, "arange": _lanes, "minimum": _extremum, "maximum": _extremum, "where": _hull_of_both,
    "full": _full, "broadcast_to": lambda reader, args, node: args[0],
}  # fmt: skip
