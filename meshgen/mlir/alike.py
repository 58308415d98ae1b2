"""Lines of a text that say the same of other values: of the second one an operation is made as the first was read.

    %7 = stablehlo.add %5, %6 : tensor<8x16xf32> loc(#loc4)
    %9 = stablehlo.add %7, %5 : tensor<8x16xf32> loc(#loc9)

A line is what a model's layers repeat: reading it is most of what reading a program takes. Its location does not count: lines
that differ in that alone say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import NameLoc
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, SSAValues, Use

_NAME = r"[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*"
_LINE = re.compile(
    rf"%({_NAME}) = ([^\n]*)\n\s*(?=%|(?:\w+\.)?return\b)"
)  # of one result, not the last one of its block
_VALUE = re.compile(rf"%((?:{_NAME})(?:#[0-9]+)?)")
_ALIAS = re.compile(r" loc\((#loc\d*)\)$")


class Line(NamedTuple):
    """A line that starts with the name of its one result."""

    result: str
    names: Sequence[str]  # of the values in it; `a#1` for the second one that `a` names
    key: tuple[str, ...]  # the text around them, and which of them are the same
    loc: str  # the alias of its location; empty where it has none
    next: int  # where the next line begins


class _Known(NamedTuple):
    """What a line was read as, and the types in it."""

    operation: Operation
    operands: Sequence[Attribute]
    results: Sequence[Attribute]


class Lines:
    """The operations that lines were read as."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._known: dict[tuple[str, ...], _Known] = {}
        self.like: dict[Operation, Operation] = {}  # of what was read again: what it is like

    def at(self, start: int, place: Sequence[str]) -> Line | None:
        """The line that begins there; None where there is none.

        Args:
            place: the dialects around it, which say what a name without dialect means.
        """
        match = _LINE.match(self._content, start)
        if match is None:
            return None
        result, body = match.groups()
        alias = _ALIAS.search(body, max(0, body.rfind(" loc(#"))) if body.endswith(")") else None
        parts = _VALUE.split(body[: alias.start()] if alias else body)
        names, key = parts[1::2], (*parts[::2], *place)
        if len({*names}) < len(names):
            key += (str([names.index(name) for name in names]),)
        return Line(result, names, key, alias[1] if alias else "", match.end())

    def again(self, line: Line, values: Mapping[str, Sequence[SSAValue]]) -> Operation | None:
        """The operation of a line that is like one before; None where there is none, or its values are of other types.

        It has the regions of the one before, and its location, if the line has no other.
        """
        if (known := self._known.get(line.key)) is None:
            return None
        operands: list[SSAValue] = []
        for name, type in zip(line.names, known.operands, strict=True):
            found = _named(name, values)
            if found is None or (found.type is not type and found.type != type):
                return None
            operands.append(found)
        made = _copied(known, operands)
        self.like[made] = known.operation
        return made

    def read(self, line: Line, operation: Operation, values: Mapping[str, Sequence[SSAValue]], end: int) -> None:
        """Keep what a line was read as: an operation on the values in it, in their order, and nothing behind the line."""
        is_whole = end == line.next and not operation.successors and len(operation.results) == 1
        location = operation.location
        is_located = not line.loc or (isinstance(location, NameLoc) and location.desc.data == line.loc)
        if is_whole and is_located and [_named(name, values) for name in line.names] == list(operation.operands):
            self._known[line.key] = _Known(operation, operation.operand_types, operation.result_types)


def _named(name: str, values: Mapping[str, Sequence[SSAValue]]) -> SSAValue | None:
    """The value of this name, as `a` or `a#1`; None where there is none, or several."""
    if (found := values.get(name)) is not None:
        return found[0] if len(found) == 1 else None
    name, mark, number = name.partition("#")
    pack = values.get(name, ()) if mark else ()
    return pack[int(number)] if mark and int(number) < len(pack) else None


# What xDSL's own `create` and `add_op` do, without the checks that what was read before has passed.


def _copied(known: _Known, operands: Sequence[SSAValue]) -> Operation:
    """An operation on other values."""
    first = known.operation
    made: Operation = object.__new__(type(first))
    uses = tuple([Use(made, index) for index in range(len(operands))])
    for operand, use in zip(operands, uses, strict=True):
        operand.add_use(use)
    made._operands = SSAValues(operands)  # pyright: ignore[reportPrivateUsage]
    made._operand_uses = uses  # pyright: ignore[reportPrivateUsage]
    made.results = SSAValues([OpResult(type, made, index) for index, type in enumerate(known.results)])
    made.properties = first.properties.copy()
    made.attributes = first.attributes.copy()
    made.location = first.location
    made.regions = first.regions
    return made


def append(block: Block, operation: Operation) -> None:
    """Put a copy at the end of a block."""
    if (last := block.last_op) is None:
        block.add_op(operation)
        return
    operation.parent = block
    last._insert_next_op(operation)  # pyright: ignore[reportPrivateUsage]
    block._last_op = operation  # pyright: ignore[reportPrivateUsage]
