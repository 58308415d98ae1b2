"""Textual forms of the types after the colon of a StableHLO operation. Types that follow from others are omitted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.dialects import builtin
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import UnresolvedOperand

from meshgen.mlir.literals import function_type, one_or_list
from meshgen.mlir.parser import TextParser

Types = Sequence[Attribute]
Texts = Sequence[str]
Pair = tuple[Types, Types]  # types of the operands, and types of the results

_COMPLEX = re.compile(r"complex<(\w+)>")


class TypesForm(NamedTuple):
    """A short form of an operation's types, such as `: type, type`. The full form is `: (types) -> types`.

    Attributes:
        expand: returns the types of operands and results, given the types in the text and the number of operands.
        shorten: returns the types to print, given those of operands and results. Returns no types if the short form
            would be ambiguous.
        has_arrow: whether the full form is `type, type -> type` instead.
    """

    expand: Callable[[Types, int], Pair]
    shorten: Callable[[Texts, Texts], Texts] = lambda operands, results: ()
    has_arrow: bool = False

    def read(self, parser: TextParser, operands: Sequence[UnresolvedOperand]) -> tuple[list[SSAValue], list[Attribute]]:
        """Parse the types. Returns the resolved operands and the types of the results."""
        if not operands and parser.parse_optional_punctuation(":") is None:
            return [], []
        if operands:
            parser.parse_punctuation(":")
        start = parser.pos
        operand_types, results = self._types(parser, len(operands))
        if len(operand_types) != len(operands):
            parser.raise_error(f"{len(operands)} operands, but {len(operand_types)} types", start)
        return list(parser.resolve_operands(operands, operand_types, start)), list(results)

    def _types(self, parser: TextParser, count: int) -> Pair:
        if (function := parser.parse_optional_function_type()) is not None:
            return function.inputs.data, function.outputs.data
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if self.has_arrow and parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            return types, [parser.parse_type()] if results is None else results
        return self.expand(types, count)

    def write(self, operands: Texts, results: Texts) -> str:
        """Return the text of the types with the colon, ` : TYPES`."""
        if not operands and not results:
            return ""
        if short := self.shorten(operands, results):
            return f" : {', '.join(short)}"
        if not self.has_arrow:
            return f" : {function_type(operands, results)}"
        return f" : {', '.join(operands)} -> {one_or_list(results)}"


def _all_one(types: Types, count: int) -> Pair:
    return [types[0]] * count, types[:1]


def part_type(type: Attribute) -> Attribute:
    """Return the type of the real part of a complex tensor. Any other type is returned unchanged."""
    if not isinstance(type, builtin.TensorType) or not isinstance(type.element_type, builtin.ComplexType):
        return type
    return builtin.TensorType(type.element_type.element_type, type.get_shape(), type.encoding)


def _tuple_elements(types: Types, count: int) -> Pair:
    (kind,) = types[:1]
    return (list(kind.types.data) if isinstance(kind, builtin.TupleType) else [kind] * count), [kind]


def _one(operands: Texts, results: Texts) -> Texts:
    return results if len(results) == 1 and all(text == results[0] for text in operands) else ()


def _same(operands: Texts, results: Texts) -> Texts:
    return results if operands == results else ()


def _chosen(operands: Texts, results: Texts) -> Texts:
    return [operands[0], *results] if all(text == results[0] for text in operands[1:]) else ()


def _of_parts(operands: Texts, results: Texts) -> Texts:
    part_text = _COMPLEX.sub(r"\1", results[0])
    return results if all(text == part_text for text in operands) else ()


FUNCTION = TypesForm(_all_one)  # `: (tensor<4xf32>) -> tensor<8xf32>`. A single type is accepted too.
ONE = TypesForm(_all_one, _one)  # `: tensor<4xf32>` if all types are equal
# `: tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>`. If all types are equal, one is accepted.
ARROW = TypesForm(_all_one, has_arrow=True)
# `: tensor<4xf32>, tensor<8xf32>` if each operand has the type of the result at its position
SAME = TypesForm(lambda types, _: (types, types), _same)
OPERANDS = TypesForm(lambda types, _: (types, ()))  # no results
PARTS = TypesForm(lambda types, count: ([part_type(types[0])] * count, types[:1]), _of_parts)
# `: tuple<tensor<4xf32>, tensor<i32>>`, the result type, whose elements are the operand types
TUPLE = TypesForm(_tuple_elements)
CHOICE = TypesForm(  # `: tensor<4xi1>, tensor<4xf32>`, the types of the condition and of the selected value
    lambda types, count: ([types[0], *[types[-1]] * (count - 1)], types[-1:]), _chosen
)
