"""Forms of the types after the colon of a StableHLO operation: a few where the others follow, else all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import UnresolvedOperand
from xdsl.printer import Printer

from meshgen.mlir.parser import TextParser
from meshgen.records import dataclass

Types = Sequence[Attribute]
Pair = tuple[Types, Types]  # of the operands and of the results


@dataclass(frozen=True)
class TypesForm:
    """A short form, `: type, type`, and the full one, `: (types) -> types`.

    `expand` gives the types of a number of operands and of the results from those written, `shorten` what to write;
    the short form is printed where it says the same. With `has_arrow` the full form is `type, type -> type`.
    """

    expand: Callable[[Types, int], Pair]
    shorten: Callable[[Types, Types], Types] | None = None
    has_arrow: bool = False

    def read(self, parser: TextParser, operands: Sequence[UnresolvedOperand]) -> tuple[list[SSAValue], list[Attribute]]:
        """The operands, resolved, and the types of the results."""
        if not operands and parser.parse_optional_punctuation(":") is None:
            return [], []
        if operands:
            parser.parse_punctuation(":")
        start = parser.pos
        given, results = self._types(parser, len(operands))
        if len(given) != len(operands):
            parser.raise_error(f"{len(operands)} operands, but {len(given)} types", start)
        return list(parser.resolve_operands(operands, given, start)), list(results)

    def _types(self, parser: TextParser, count: int) -> Pair:
        if (function := parser.parse_optional_function_type()) is not None:
            return function.inputs.data, function.outputs.data
        written = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if self.has_arrow and parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            return written, [parser.parse_type()] if results is None else results
        return self.expand(written, count)

    def write(self, printer: Printer, operands: Types, results: Types) -> None:
        if not operands and not results:
            return
        printer.print_string(" : ")
        short = self.shorten(operands, results) if self.shorten is not None else ()
        expanded = self.expand(short, len(operands)) if short else None
        if expanded is not None and [list(side) for side in expanded] == [list(operands), list(results)]:
            printer.print_list(short, printer.print_attribute)
        elif self.has_arrow:
            printer.print_list(operands, printer.print_attribute)
            printer.print_string(" -> ")
            is_one = len(results) == 1
            printer.print_string("" if is_one else "(")
            printer.print_list(results, printer.print_attribute)
            printer.print_string("" if is_one else ")")
        else:
            printer.print_function_type(operands, results)


def _all_one(types: Types, count: int) -> Pair:
    return [types[0]] * count, types[:1]


def part_type(type: Attribute) -> Attribute:
    """The type of the parts of complex numbers; of what is none, itself."""
    if not isinstance(type, builtin.TensorType) or not isinstance(type.element_type, builtin.ComplexType):
        return type
    return builtin.TensorType(type.element_type.element_type, type.get_shape(), type.encoding)


def _tuple_elements(types: Types, count: int) -> Pair:
    (kind,) = types[:1]
    return (list(kind.types.data) if isinstance(kind, builtin.TupleType) else [kind] * count), [kind]


FUNCTION = TypesForm(_all_one)  # `: (tensor<4xf32>) -> tensor<8xf32>`; one type is read too
ONE = TypesForm(_all_one, lambda _, results: results[:1])  # `: tensor<4xf32>` where all types are that
ARROW = TypesForm(_all_one, has_arrow=True)  # `: tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>`
SAME = TypesForm(lambda types, _: (types, types), lambda _, results: results)  # each operand's type is that of a result
OPERANDS = TypesForm(lambda types, _: (types, ()), lambda operands, _: operands)  # without results
PARTS = TypesForm(lambda types, count: ([part_type(types[0])] * count, types[:1]), lambda _, results: results)
TUPLE = TypesForm(_tuple_elements, lambda _, results: results)  # `: tuple<tensor<4xf32>, tensor<i32>>`
CHOICE = TypesForm(  # `: tensor<4xi1>, tensor<4xf32>`: what chooses, and what is chosen
    lambda types, count: ([types[0], *[types[-1]] * (count - 1)], types[-1:]),
    lambda operands, results: [operands[0], *results],
)
