"""Constructors of `Field` for StableHLO's enumerations, precisions and dim numbers. `mlir/fields.py` has the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.ir import Attribute

from meshgen.mlir import literals
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import Precision, Struct, Word, precision_of, struct_text, word_of
from meshgen.mlir.text_operation import Field, Values


def word(prop: str, kind: type[Word], attr: str, keyword: str = "", *, is_required: bool = True) -> Field:
    """Return a field for a value of the enumeration `kind`. If an optional property is missing, the attribute is ""."""
    return Field(
        prop,
        lambda attribute: {attr: word_of(attribute)},
        lambda values: kind.entry(values[attr]) if values.get(attr) else "",
        keyword,
        lambda parser: kind(parser.parse_identifier()),
        lambda values: values.get(attr) or "",
        is_required,
        kind.name,
    )


def precisions(read: Callable[[TextParser], Attribute] = TextParser.parse_attribute, keyword: str = "", *, prop: str = "precision_config", attr: str = "precision") -> Field:  # fmt: skip
    """Return a field for the precision of a dot or convolution, a list with one word per operand."""
    return Field(
        prop,
        lambda attribute: {attr: precision_of(attribute)},
        lambda values: literals.listed(map(Precision.entry, words)) if (words := values.get(attr)) else "",
        keyword,
        read,
        lambda values: literals.listed(words) if (words := values.get(attr)) else "",
        is_required=False,
        kind="array",
    )


def numbering(prop: str, kind: type[Struct], lists: Mapping[str, str], single_numbers: Sequence[str] = (), *,
              is_written: bool = False) -> Field:  # fmt: skip
    """Return a field for dimension numbers, a struct that contains lists of dims and single dims.

    Args:
        lists: node attribute -> name of the list in the struct.
        single_numbers: names of the struct's fields that are a single dim.
        is_written: whether a single dim is also printed if it is 0.
    """

    def values(attribute: Attribute | None) -> Values:
        assert isinstance(attribute, kind)
        fields: dict[str, Any] = {attr: attribute.integers(name) for attr, name in lists.items()}
        return fields | {name: attribute.integer(name) for name in single_numbers}

    def entry(attrs: Values) -> str:
        fields = {name: attrs[attr] for attr, name in lists.items()} | {name: attrs[name] for name in single_numbers}
        return f"#{kind.name}{struct_text(fields, single_numbers if is_written else ())}"

    return Field(prop, values, entry, kind=kind.name)
