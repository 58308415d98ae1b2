"""Parse each distinct line of text once: a line that differs from an earlier one only in value names copies its
operation.

    %7 = stablehlo.add %5, %6 : tensor<8x16xf32> loc(#loc4)
    %9 = stablehlo.add %7, %5 : tensor<8x16xf32> loc(#loc9)

The layers of a model repeat such lines, and most of the time to read a program is spent on parsing lines. Locations are
ignored in the comparison.
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
)  # matches a line that defines one result and is not the last line of its block
_VALUE = re.compile(rf"%((?:{_NAME})(?:#[0-9]+)?)")
_ALIAS = re.compile(r" loc\((#loc\d*)\)$")


class Line(NamedTuple):
    """A line of text that defines exactly one value."""

    result: str
    # SSA names on the right-hand side; `a#1` is the second result of an operation whose results share the name `a`
    names: Sequence[str]
    # cache key: the text between the names, the enclosing dialects, and which names are equal if a name repeats
    key: tuple[str, ...]
    loc: str  # the alias of the line's location, or ""
    next: int  # text offset of the following line


class _ParsedLine(NamedTuple):
    """An operation that was parsed from a line, and the types of its operands and results."""

    operation: Operation
    operands: Sequence[Attribute]
    results: Sequence[Attribute]


class Lines:
    """A cache of parsed operations, keyed by the text of their lines."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._parsed_lines: dict[tuple[str, ...], _ParsedLine] = {}
        self.like: dict[Operation, Operation] = {}  # copied operation -> the parsed operation that it copies

    def at(self, start: int, dialect_stack: Sequence[str]) -> Line | None:
        """Return the line that starts at text offset `start`, or None if the text there is not a line that can be
        cached.

        Args:
            dialect_stack: the enclosing dialects, which resolve operation names without a dialect prefix.
        """
        match = _LINE.match(self._content, start)
        if match is None:
            return None
        result, body = match.groups()
        alias = _ALIAS.search(body, max(0, body.rfind(" loc(#"))) if body.endswith(")") else None
        tokens = _VALUE.split(body[: alias.start()] if alias else body)
        names, key = tokens[1::2], (*tokens[::2], *dialect_stack)
        if len({*names}) < len(names):
            key += (str([names.index(name) for name in names]),)
        return Line(result, names, key, alias[1] if alias else "", match.end())

    def replay(self, line: Line, values: Mapping[str, Sequence[SSAValue]]) -> Operation | None:
        """Return a copy of the operation of an earlier line with the same key, applied to the operands that `line`
        names.

        The copy shares the regions of the earlier operation and inherits its location. Returns None if no earlier line
        has the key, or if an operand is undefined or has another type than in the earlier line.
        """
        if (parsed := self._parsed_lines.get(line.key)) is None:
            return None
        operands: list[SSAValue] = []
        for name, type in zip(line.names, parsed.operands, strict=True):
            operand = _value_called(name, values)
            if operand is None or (operand.type is not type and operand.type != type):
                return None
            operands.append(operand)
        copied = _copy(parsed, operands)
        self.like[copied] = parsed.operation
        return copied

    def record(self, line: Line, operation: Operation, values: Mapping[str, Sequence[SSAValue]], end: int) -> None:
        """Cache `operation`, which was parsed from `line` and ends at text offset `end`.

        An operation is not cached if it ends elsewhere than the line, or if its operands are not exactly the values
        that the line names, in order.
        """
        is_whole = end == line.next and not operation.successors and len(operation.results) == 1
        location = operation.location
        is_located = not line.loc or (isinstance(location, NameLoc) and location.desc.data == line.loc)
        if is_whole and is_located and [_value_called(name, values) for name in line.names] == list(operation.operands):
            self._parsed_lines[line.key] = _ParsedLine(operation, operation.operand_types, operation.result_types)


def _value_called(name: str, values: Mapping[str, Sequence[SSAValue]]) -> SSAValue | None:
    """Return the value called `a` or `a#1`, or None if it is undefined or if the name `a` is shared by several results."""
    if (results := values.get(name)) is not None:
        return results[0] if len(results) == 1 else None
    name, mark, index = name.partition("#")
    pack = values.get(name, ()) if mark else ()
    return pack[int(index)] if mark and int(index) < len(pack) else None


# The following two functions do what xDSL's `create` and `add_op` do, without their checks: the operation that is
# copied has already passed them.


def _copy(parsed: _ParsedLine, operands: Sequence[SSAValue]) -> Operation:
    """Return a copy of the parsed operation that is applied to `operands`."""
    first = parsed.operation
    copied: Operation = object.__new__(type(first))
    uses = tuple([Use(copied, index) for index in range(len(operands))])
    for operand, use in zip(operands, uses, strict=True):
        operand.add_use(use)
    copied._operands = SSAValues(operands)  # pyright: ignore[reportPrivateUsage]
    copied._operand_uses = uses  # pyright: ignore[reportPrivateUsage]
    copied.results = SSAValues([OpResult(type, copied, index) for index, type in enumerate(parsed.results)])
    copied.properties = first.properties.copy()
    copied.attributes = first.attributes.copy()
    copied.location = first.location
    copied.regions = first.regions
    return copied


def append(block: Block, operation: Operation) -> None:
    """Append `operation` to `block` without xDSL's checks."""
    if (last := block.last_op) is None:
        block.add_op(operation)
        return
    operation.parent = block
    last._insert_next_op(operation)  # pyright: ignore[reportPrivateUsage]
    block._last_op = operation  # pyright: ignore[reportPrivateUsage]
