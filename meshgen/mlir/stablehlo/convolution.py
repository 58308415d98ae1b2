"""The operation `stablehlo.convolution`, its parser, printer and importer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.ir import Attribute, Operation
from xdsl.parser import UnresolvedOperand

from meshgen.mlir import literals
from meshgen.mlir.attributes import array, flags
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import number
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import ConvolutionDimensions
from meshgen.mlir.stablehlo.base import HloOperation, as_nodes
from meshgen.mlir.stablehlo.contraction import emit_with_one_dtype
from meshgen.mlir.stablehlo.fields import precisions
from meshgen.mlir.stablehlo.window_ops import filled, padding, per_dim, sides
from meshgen.mlir.text_operation import Field, Properties, Values, define, values_of

_WINDOW = re.compile(r"\{([^{}]*)\}")
_WINDOW_PART = re.compile(r"(\w+)\s*=\s*(\[[^=]*\])")
_WINDOW_LISTS = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}
_LETTERS = (
    ("input", "b", "batch", "f", "feature"),
    ("kernel", "o", "output_feature", "i", "input_feature"),
    ("output", "b", "batch", "f", "feature"),
)


class Convolution(HloOperation):
    """A convolution with its window and the roles of the dims of its operands and result.

    stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {...} {...}
    """

    FIELDS: ClassVar[tuple[Field, ...]] = (
        *(per_dim(name, name, 1, "window") for name in ("window_strides", "lhs_dilation", "rhs_dilation")),
        sides("window"),
        per_dim("window_reversal", "window_reversal", 0, "window", literals.flags),
        number("feature_group_count", "feature_group_count"),
        number("batch_group_count", "batch_group_count"),
        precisions(),
        Field(
            "dimension_numbers",
            entry=lambda attrs: f"#stablehlo.conv<{_numbering_text(attrs)}>",
            keyword="dim_numbers",
            kind=ConvolutionDimensions.name,
        ),
    )

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        parser.parse_punctuation("(")
        operands = parser.parse_values()
        parser.parse_punctuation(")")
        parser.parse_keyword("dim_numbers")
        parser.parse_punctuation("=")
        properties: Properties = {
            "dimension_numbers": ConvolutionDimensions(ConvolutionDimensions.parse_parameter(parser))
        }
        parser.parse_clause("window")
        for name, words in _WINDOW_PART.findall(parser.scan(_WINDOW, "expected a window in braces")[1]):
            if name not in _WINDOW_LISTS:
                parser.fail(f"unknown field '{name}' of a window")
            properties[_WINDOW_LISTS[name]] = _window_list(name, re.findall(r"-?\d+|true|false", words))
        return operands, properties

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        pads = [list(pair) for pair in zip(attrs["low"], attrs["high"], strict=True)]
        reverse = literals.listed(map(literals.boolean, attrs["window_reversal"]))
        texts = {word: str(list(attrs[name])) for word, name in _WINDOW_LISTS.items() if name in attrs}
        texts |= {"pad": str(pads), "reverse": reverse}
        window = ", ".join(f"{word} = {texts[word]}" for word in _WINDOW_LISTS if texts[word] != "[]" or word == "pad")
        return f"({', '.join(operands)}) dim_numbers = {_numbering_text(attrs)}, window = {{{window}}}"


def _window_list(name: str, words: Sequence[str]) -> Attribute:
    if name == "reverse":
        return flags([word == "true" for word in words])
    numbers = [int(word) for word in words]
    return padding(numbers[::2], numbers[1::2]) if name == "pad" else array(numbers)


def _import_convolution(importer: Importer, operation: Operation) -> None:
    attrs = numbered(importer, operation)
    if attrs is not None:
        emit_with_one_dtype(importer, operation, "convolution", attrs)


def numbered(importer: Importer, operation: Operation) -> dict[str, Any] | None:
    """Return the attributes of the node of a convolution. If its dim numbers are invalid, reports a fault and returns
    None.
    """
    attrs = filled(values_of(operation), importer.type(operation.operands[0]).rank - 2)
    attrs["window_reversal"] = tuple(int(bool(flag)) for flag in attrs["window_reversal"])
    numbering = operation.properties["dimension_numbers"]
    assert isinstance(numbering, ConvolutionDimensions)
    for (side, first, first_name, second, second_name), words in zip(_LETTERS, numbering.data, strict=True):
        if sorted(words) != sorted([first, second, *map(str, range(len(words) - 2))]):
            importer.fault("MG0104", f"{numbering.text()} must number the dims", operation)
            return None
        attrs[f"{side}_{first_name}"], attrs[f"{side}_{second_name}"] = words.index(first), words.index(second)
        attrs[f"{side}_spatial"] = tuple(words.index(str(index)) for index in range(len(words) - 2))
    return attrs


def _numbering_text(attrs: Values) -> str:
    """Return the text of the role of each dim, such as `[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]` for input, kernel and
    output.
    """
    return "{}x{}->{}".format(*(literals.listed(_letters(attrs, *words)) for words in _LETTERS))


def _letters(attrs: Values, side: str, first: str, first_name: str, second: str, second_name: str) -> list[str]:
    """Return the role of each dim of one side: a letter for the two dims `first_name` and `second_name`, an index for
    spatial dims.
    """
    roles = {attrs[f"{side}_{first_name}"]: first, attrs[f"{side}_{second_name}"]: second}
    roles |= {dim: str(index) for index, dim in enumerate(attrs[f"{side}_spatial"])}
    return [roles[dim] for dim in range(len(roles))]


PART = merged(
    as_nodes(
        *define(Convolution, "stablehlo", {"2 -> 1": "convolution"}),
        importers={"stablehlo.convolution": _import_convolution},
    ),
    Dialect(self_contained=("stablehlo.convolution",)),
)
