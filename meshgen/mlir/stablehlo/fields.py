"""Fields of StableHLO's operations: enumerations, precisions and dimension numbers; others are in `mlir/fields.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.ir import Attribute

from meshgen.mlir import literals
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import Precision, Struct, Word, precision_of, struct_text, word_of
from meshgen.mlir.text_operation import Field, Values


def word(prop: str, kind: type[Word], attr: str, keyword: str = "", *, is_required: bool = True) -> Field:
    """A value of an enumeration; one that may be left out is empty then."""
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
    """The precision of a product, one word per operand."""
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


def numbering(prop: str, kind: type[Struct], lists: Mapping[str, str], one: Sequence[str] = (), *,
              is_written: bool = False) -> Field:  # fmt: skip
    """A struct of lists, by attribute of the node, and of numbers; `is_written`: these are printed where they are 0."""

    def values(attribute: Attribute | None) -> Values:
        assert isinstance(attribute, kind)
        found: dict[str, Any] = {attr: attribute.integers(name) for attr, name in lists.items()}
        return found | {name: attribute.integer(name) for name in one}

    def entry(attrs: Values) -> str:
        found = {name: attrs[attr] for attr, name in lists.items()} | {name: attrs[name] for name in one}
        return f"#{kind.name}{struct_text(found, one if is_written else ())}"

    return Field(prop, values, entry, kind=kind.name)
