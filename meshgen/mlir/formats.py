"""Operations whose text is said by a format: xDSL's `irdl_op_definition`, but a format is read when an operation is first parsed or printed.

Reading a format takes as long as reading ten lines of a program, and a program has few of the operations that have one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer

_Operation = TypeVar("_Operation", bound=type[IRDLOperation])


def op_definition(kind: _Operation) -> _Operation:
    """Decorator: the operation that the class defines, with the syntax of its `assembly_format`, if it has one."""
    text = kind.assembly_format
    if text is None:
        return irdl_op_definition(kind)
    kind.assembly_format = None

    @cache
    def syntax() -> FormatProgram:
        return FormatProgram.from_str(text, kind.get_irdl_definition())

    def parse(cls: type[IRDLOperation], parser: Parser) -> Any:
        return syntax().parse(parser, cls)

    def write(self: IRDLOperation, printer: Printer) -> None:
        syntax().print(printer, self)

    defined: Any = irdl_op_definition(kind)
    defined.parse, defined.print = classmethod(parse), write
    return defined
