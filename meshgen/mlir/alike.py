"""Lines of a text that say the same of other values: of the second one an operation is made as the first was read.

    %7 = stablehlo.add %5, %6 : tensor<8x16xf32>
    %9 = stablehlo.add %7, %5 : tensor<8x16xf32>

A line is what a model's layers repeat: reading it is most of what reading a program takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

_NAME = r"%([0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
_LINE = re.compile(rf"{_NAME} = ([^\n]*)\n\s*(%|\}}|return\b)")  # of one result, and how the next line begins
_VALUE = re.compile(_NAME)


class Line:
    """A line that starts with the name of its one result: that, the names of the values in it, and the text around them."""

    def __init__(self, match: re.Match[str], place: Sequence[str]) -> None:
        self.result = match[1]
        parts = _VALUE.split(match[2])
        self.names = parts[1::2]
        self.key = (*parts[::2], match[3], *place)
        self.next = match.start(3)


class Lines:
    """The operations that lines were read as."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._known: dict[tuple[str, ...], Operation] = {}
        self.like: dict[Operation, Operation] = {}  # of what was read again: what it is like

    def at(self, start: int, place: Sequence[str]) -> Line | None:
        """The line that begins there; None where there is none.

        Args:
            place: the dialects around it, which say what a name without dialect means.
        """
        match = _LINE.match(self._content, start)
        return Line(match, place) if match else None

    def again(self, line: Line, values: Mapping[str, Sequence[SSAValue]]) -> Operation | None:
        """The operation of a line that is like one before; None where there is none, or its values are of other types."""
        if (known := self._known.get(line.key)) is None:
            return None
        operands: list[SSAValue] = []
        for name, like in zip(line.names, known.operands, strict=True):
            found = values.get(name, ())
            if len(found) != 1 or (found[0].type is not like.type and found[0].type != like.type):
                return None
            operands.append(found[0])
        made = type(known).create(
            operands=operands, result_types=known.result_types, properties=dict(known.properties),
            attributes=dict(known.attributes),
        )  # fmt: skip
        made.location = known.location
        self.like[made] = known
        return made

    def read(self, line: Line, operation: Operation, names: Iterable[str], end: int) -> None:
        """Keep what a line was read as: an operation on the values in it, in their order, and nothing behind the line."""
        is_whole = end == line.next and not operation.regions and not operation.successors
        is_plain = len(operation.results) == 1 and not any(part.startswith("#") for part in line.key)
        if is_whole and is_plain and list(names) == line.names:
            self._known[line.key] = operation
