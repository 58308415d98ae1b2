"""Forms of the types after the colon of a StableHLO operation: a few where the others follow, else all."""

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
Pair = tuple[Types, Types]  # of the operands and of the results

_COMPLEX = re.compile(r"complex<(\w+)>")


class TypesForm(NamedTuple):
    """A short form, `: type, type`, and the full one, `: (types) -> types`.

    `expand` gives the types of a number of operands and of the results from those written. `shorten` gives the texts to write for
    those of all; none where the short form would not say the same. With `has_arrow` the full form is `type, type -> type`.
    """

    expand: Callable[[Types, int], Pair]
    shorten: Callable[[Texts, Texts], Texts] = lambda operands, results: ()
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

    def write(self, operands: Texts, results: Texts) -> str:
        """` : TYPES`"""
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
    """The type of the parts of complex numbers; of what is none, itself."""
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
    part = _COMPLEX.sub(r"\1", results[0])
    return results if all(text == part for text in operands) else ()


FUNCTION = TypesForm(_all_one)  # `: (tensor<4xf32>) -> tensor<8xf32>`; one type is read too
ONE = TypesForm(_all_one, _one)  # `: tensor<4xf32>` where all types are that
ARROW = TypesForm(_all_one, has_arrow=True)  # `: tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>`
SAME = TypesForm(lambda types, _: (types, types), _same)  # each operand's type is that of a result
OPERANDS = TypesForm(lambda types, _: (types, ()))  # without results
PARTS = TypesForm(lambda types, count: ([part_type(types[0])] * count, types[:1]), _of_parts)
TUPLE = TypesForm(_tuple_elements)  # `: tuple<tensor<4xf32>, tensor<i32>>`
CHOICE = TypesForm(  # `: tensor<4xi1>, tensor<4xf32>`: what chooses, and what is chosen
    lambda types, count: ([types[0], *[types[-1]] * (count - 1)], types[-1:]), _chosen
)
