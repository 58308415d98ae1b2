"""What the operations of StableHLO share: reading and printing of the pretty form, and their registration.

An operation's pretty form is `name HEAD attr-dict : TYPES`. A class says in `read_head` what stands in HEAD
(its operands and properties) and in `head` how it is printed; the rest is common.
"""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.parser import TextParser

Properties = dict[str, Attribute]
OPERATIONS: list[type[Operation]] = []
"""All operations of the dialects `stablehlo` and `chlo`, in the order of their definition."""


class HloOperation(IRDLOperation):
    """An operation with the common pretty form; by default HEAD is the operands and there are no properties."""

    ONE_TYPE: ClassVar[bool] = False  # print one type where operands and results all have it

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        return parser.parse_values(), {}

    def head(self, printer: Printer) -> None:
        """Print the operands and properties."""
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands, properties = cls.read_head(parser)
        attributes = parser.parse_optional_attr_dict()
        values, results = parser.parse_signature(operands)
        return cls.create(operands=values, result_types=results, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        self.head(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        types = [*self.operand_types, *self.result_types]
        if self.ONE_TYPE and all(type == types[0] for type in types):
            printer.print_attribute(types[0])
        else:
            printer.print_function_type(self.operand_types, self.result_types)


def define(base: type[IRDLOperation], name: str) -> type[IRDLOperation]:
    """Define and register the operation `name` ("dialect.mnemonic") with the syntax and checks of `base`."""
    title = "".join(part.capitalize() for part in name.partition(".")[2].split("_")) + "Op"
    operation = irdl_op_definition(type(title, (base,), {"name": name, "__module__": base.__module__}))
    OPERATIONS.append(operation)
    return operation
