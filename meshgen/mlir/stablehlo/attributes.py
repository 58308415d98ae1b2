"""Attributes of StableHLO: enumerations, such as `#stablehlo<precision DEFAULT>`, and dimension numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.mlir.parser import TextParser

Fields = tuple[tuple[str, int | tuple[int, ...]], ...]
_STRUCT = re.compile(r"<([^<>]*)>")
_FIELD = re.compile(r"(\w+)\s*=\s*(?:\[([-\d,\s]*)\]|(-?\d+))\s*(?:,\s*|$)")
_RAW = re.compile(r"<\s*raw\b([^<>]*)>")
_CONVOLUTION = re.compile(r"<?\s*\[([\w, ]*)\]\s*x\s*\[([\w, ]*)\]\s*->\s*\[([\w, ]*)\]\s*>?")


class Word(SpacedOpaqueSyntaxAttribute, Data[str]):
    """Base class of attributes that are a value of a StableHLO enumeration, such as `#stablehlo<precision DEFAULT>`."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    @classmethod
    def entry(cls, value: str) -> str:
        """Return the text of the attribute with the value `value`, such as `#stablehlo<precision DEFAULT>`."""
        return f"#{cls.name.replace('.', '<', 1)} {value}>"


def enumeration(name: str) -> type[Word]:
    """Return a class of attributes with the name `name`, whose values are the words of an enumeration."""
    return irdl_attr_definition(cast("type[Word]", type(name, (Word,), {"name": name})))


Precision = enumeration("stablehlo.precision")
ComparisonDirection = enumeration("stablehlo.comparison_direction")
ComparisonType = enumeration("stablehlo.comparison_type")
RngAlgorithm = enumeration("stablehlo.rng_algorithm")
RngDistribution = enumeration("stablehlo.rng_distribution")
FftType = enumeration("stablehlo.fft_type")
Transpose = enumeration("stablehlo.transpose")


class Struct(Data[Fields]):
    """Base class of attributes that consist of named integers and lists of integers, such as `<a = 1, b = [0, 2]>`."""

    names: ClassVar[tuple[str, ...]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fields:
        assert isinstance(parser, TextParser)
        start = parser.pos
        return tuple(_read_fields(parser, cls, parser.scan(_STRUCT, "expected '<' and fields")[1], start).items())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(struct_text(dict(self.data), [name for name, _ in self.data]))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the list in the field `name`, or () if the text omits the field."""
        value = dict(self.data).get(name, ())
        return value if isinstance(value, tuple) else (value,)

    def integer(self, name: str) -> int:
        """Return the integer in the field `name`, or 0 if the text omits the field."""
        value = dict(self.data).get(name, 0)
        return value if isinstance(value, int) else 0


def struct(name: str, fields: str) -> type[Struct]:
    """Return a class of attributes with the name `name` and the fields `fields`."""
    return irdl_attr_definition(
        cast("type[Struct]", type(name, (Struct,), {"name": name, "names": tuple(fields.split())}))
    )


DotDimensions = struct(
    "stablehlo.dot",
    "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions rhs_contracting_dimensions",
)
GatherDimensions = struct(
    "stablehlo.gather",
    "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims start_index_map index_vector_dim",
)
ScatterDimensions = struct(
    "stablehlo.scatter",
    "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims scatter_dims_to_operand_dims index_vector_dim",
)
ChannelHandle = struct("stablehlo.channel_handle", "handle type")

_SIDES = (("input", "batch", "feature"), ("kernel", "output_feature", "input_feature"), ("output", "batch", "feature"))
_LETTERS = {"batch": "b", "feature": "f", "output_feature": "o", "input_feature": "i"}


@irdl_attr_definition
class ConvolutionDimensions(Data[tuple[tuple[str, ...], ...]]):
    """The attribute with the role of each dim of input, kernel and output, such as `[b, f, 0, 1]x[o, i, 0, 1]->[b, f,
    0, 1]`.
    """

    name = "stablehlo.conv"
    names = tuple(
        f"{side}_{what}"
        for side, *whats in _SIDES
        for what in (*(f"{w}_dimension" for w in whats), "spatial_dimensions")
    )

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, ...], ...]:
        assert isinstance(parser, TextParser)
        if parser.at(_RAW):
            start = parser.pos
            fields = _read_fields(parser, cls, parser.scan(_RAW, "expected fields")[1], start)
            return tuple(_raw_side(parser, fields, *side) for side in _SIDES)
        match = parser.scan(_CONVOLUTION, "expected convolution dimensions")
        return tuple(tuple(word.strip() for word in group.split(",")) for group in match.groups())

    def text(self) -> str:
        lhs, rhs, out = (f"[{', '.join(words)}]" for words in self.data)
        return f"{lhs}x{rhs}->{out}"

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text()}>")


def _read_fields(
    parser: TextParser, kind: type[Struct | ConvolutionDimensions], text: str, start: int
) -> dict[str, int | tuple[int, ...]]:
    """Parse the fields of a struct, `a = 1, b = [0, 2]`. Each field may occur once."""
    body = text.strip()
    fields = {match[1]: int(match[3]) if match[3] else numbers(match[2]) for match in _FIELD.finditer(body)}
    if _FIELD.sub("", body) or len(fields) != len(_FIELD.findall(body)):
        parser.raise_error(f"expected a list of fields, name = number or name = [numbers], got '<{body}>'", start)
    if unknown := [name for name in fields if name not in kind.names]:
        parser.raise_error(
            f"unknown field '{unknown[0]}' of #{kind.name}; known fields are {', '.join(kind.names)}", start
        )
    return fields


def _raw_side(
    parser: TextParser, fields: Mapping[str, int | tuple[int, ...]], side: str, first: str, second: str
) -> tuple[str, ...]:
    """Return the role of each dim of one side (input, kernel or output), given the fields that list dim numbers per
    role.

    A missing dim number is 0.
    """
    spatial = fields.get(f"{side}_spatial_dimensions", ())
    pairs = [(fields.get(f"{side}_{role}_dimension", 0), _LETTERS[role]) for role in (first, second)]
    pairs += [(dim, str(index)) for index, dim in enumerate(spatial if isinstance(spatial, tuple) else (spatial,))]
    words = dict(pairs)
    if len(words) != len(pairs) or any(dim not in words for dim in range(len(pairs))):
        parser.raise_error(f"the dims of the {side} must be numbered from 0 to {len(pairs) - 1}, each once")
    return tuple(words[dim] for dim in range(len(words)))


def struct_fields(values: Mapping[str, int | Sequence[int]], always: Sequence[str] = ()) -> Fields:
    """Return the fields of a struct in order, without empty lists and zeros, except for the fields in `always`."""
    written = {name: value for name, value in values.items() if value or name in always}
    return tuple((name, value if isinstance(value, int) else tuple(value)) for name, value in written.items())


def struct_text(values: Mapping[str, int | Sequence[int]], always: Sequence[str] = ()) -> str:
    """Return the text of a struct, `<a = 1, b = [0, 2]>`, without empty lists and zeros, except for the fields in
    `always`.
    """
    parts = (f"{name} = {value if isinstance(value, int) else list(value)}" for name, value in values.items() if value or name in always)  # fmt: skip
    return f"<{', '.join(parts)}>"


def numbers(text: str) -> tuple[int, ...]:
    """Parse integers that are separated by commas."""
    return tuple(int(word) for word in text.split(",")) if text.strip() else ()


class Bracketed(Data[str]):
    """Base class of attributes whose text in angle brackets is stored as written."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.parse_bracketed()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ResultAccuracy(Bracketed):
    """The requested accuracy of a function, which is ignored: `<mode = #stablehlo.result_accuracy_mode<HIGHEST>>`."""

    name = "stablehlo.result_accuracy"


def word_of(attribute: Attribute | None) -> str:
    """Return the value of an enumeration attribute, or "" if the attribute is missing."""
    return attribute.data if isinstance(attribute, Word) else ""


def precision(values: Sequence[str]) -> Attribute:
    return builtin.ArrayAttr([Precision(value) for value in values])


def precision_of(attribute: Attribute | None) -> tuple[str, ...]:
    if not isinstance(attribute, builtin.ArrayAttr):
        return ()
    return tuple(word_of(word) for word in attribute.data)


ATTRIBUTES: tuple[type[Attribute], ...] = (
    Precision,
    ComparisonDirection,
    ComparisonType,
    RngAlgorithm,
    RngDistribution,
    FftType,
    Transpose,
    DotDimensions,
    GatherDimensions,
    ScatterDimensions,
    ChannelHandle,
    ConvolutionDimensions,
    ResultAccuracy,
)
