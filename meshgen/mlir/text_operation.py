"""Base class of operations that a signature defines and that parse their own pretty form.

    define(Plain, "arith", {"2 float -> 1": "addf subf", "2 integer -> 1": "addi subi"})

This call defines four operations in the textual form `Plain`. xDSL's own definitions (in IRDL) cover only some of these
operations and often reject tensors. Defining an operation with IRDL also takes longer than reading several lines of a
program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from meshgen.mlir.operation_signature import Property, Signature
from meshgen.mlir.parser import TextParser

Values = Mapping[str, Any]
Properties = dict[str, Attribute]


def _nothing(_: Values) -> str:
    return ""


class Field(NamedTuple):
    """The property `prop` of an operation that becomes a single node: how it is parsed, printed, and stored in the
    node.

    Attributes:
        values: returns node attributes, given the property, or None if the property is missing.
        entry: returns the text of the property in the attribute dictionary, given the node attributes; "" omits it.
        keyword: the word in front of the property in the pretty form. Without one, `entry` prints the property.
        read: parses the property after its keyword.
        text: returns the text of the property after its keyword, given the node attributes; "" omits it.
        is_required: whether the operation is invalid without the property.
        kind: the expected attribute kind, in the notation of signatures.
    """

    prop: str
    values: Callable[[Attribute | None], Values] = lambda _: {}
    entry: Callable[[Values], str] = _nothing
    keyword: str = ""
    read: Callable[[TextParser], Attribute] = TextParser.parse_attribute
    text: Callable[[Values], str] = _nothing
    is_required: bool = True
    kind: str = "any"

    @property
    def property(self) -> Property:
        return Property(self.prop, not self.is_required, tuple(self.kind.split("|")), None)


class TextOperation(Operation):
    """Base class of operations defined by a signature. Without a `read` method, an operation has only the generic form."""

    signature: ClassVar[Signature]
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    traits = traits_def()

    def verify_(self) -> None:
        names = {property.name for property in self.signature.properties}
        if unknown := [name for name in self.properties if name not in names]:
            raise VerifyException(f"property '{unknown[0]}' is not defined; attributes in braces may be anything")
        for trait in self.traits:
            trait.verify(self)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        return cls.read(parser)

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        """Parse the pretty form of the operation after its name."""
        return super().parse(parser)

    @classmethod
    def create(cls, *, properties: Mapping[str, Attribute] = {}, attributes: Mapping[str, Attribute] = {}, **parts: Any) -> Self:  # fmt: skip
        """Create an operation. Attributes that are named like a property become properties, since older texts have them
        there.
        """
        names = {property.name for property in cls.signature.properties} - properties.keys()
        moved = {name: attribute for name, attribute in attributes.items() if name in names}
        rest = {name: attribute for name, attribute in attributes.items() if name not in names}
        return super().create(properties={**properties, **moved}, attributes=rest, **parts)

    @classmethod
    def of(cls, operands: Sequence[SSAValue], results: Sequence[Attribute], attributes: Mapping[str, Attribute],
           properties: Mapping[str, Attribute] | None = None, regions: Sequence[Region] = ()) -> Self:  # fmt: skip
        """Create an operation from the parts of its pretty form. Attributes named like a property become properties."""
        return cls.create(operands=operands, result_types=results, properties=properties or {}, attributes=attributes, regions=regions)  # fmt: skip


_Form = TypeVar("_Form", bound=TextOperation)


class Yield(TextOperation):
    """A terminator that yields values: `linalg.yield %a, %b : type, type`."""

    traits = traits_def(IsTerminator())

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        return cls.of(parser.parse_typed_values() if parser.at_value() else [], [], {})


def define(form: type[_Form], dialect: str, rows: Mapping[str, str], **members: Any) -> tuple[type[_Form], ...]:
    """Define operations of the textual form `form`. `rows` maps a signature to the mnemonics that have it, separated by
    blanks.

    `members` are class attributes of all these operations, for example `FIELDS`.
    """
    fields: Sequence[Field] = members.get("FIELDS", form.FIELDS)
    operations: list[type[_Form]] = []
    for line, words in rows.items():
        read = Signature.read(line)
        signature = read._replace(properties=(*read.properties, *(field.property for field in fields)))
        for word in words.split():
            body = {"name": f"{dialect}.{word}", "signature": signature, "__module__": form.__module__, **members}
            operations.append(cast("type[_Form]", type(word, (form,), body)))
    return tuple(operations)


def values_of(operation: Operation) -> dict[str, Any]:
    """Return the node attributes that result from the properties of an operation, according to its `FIELDS`."""
    values: dict[str, Any] = {}
    for field in type(operation).FIELDS if isinstance(operation, TextOperation) else ():
        values |= field.values(operation.properties.get(field.prop))
    return values


def assignments(parser: Parser) -> tuple[list[UnresolvedOperand], list[UnresolvedOperand]]:
    """Parse `(%a = %x, %b = %y)` into the names on the left and those on the right.

    Returns empty lists if the next token is not a parenthesis.
    """

    def assignment() -> tuple[UnresolvedOperand, UnresolvedOperand]:
        inner = parser.parse_unresolved_operand()
        parser.parse_punctuation("=")
        return inner, parser.parse_unresolved_operand()

    pairs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, assignment) or []
    return [inner for inner, _ in pairs], [outer for _, outer in pairs]


def one_or_more_types(parser: Parser) -> list[Attribute]:
    """Parse one type without parentheses, or a list `(type, type)`."""
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else list(types)


def result_types(parser: Parser) -> list[Attribute]:
    """Parse the optional result types `-> type` or `-> (type, type)`."""
    return one_or_more_types(parser) if parser.parse_optional_punctuation("->") is not None else []
