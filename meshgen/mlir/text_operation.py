"""Operations that are read: a signature says what an operation is made of, `read` how its pretty form is written.

    define(Plain, "arith", {"2 float -> 1": "addf subf", "2 integer -> 1": "addi subi"})

defines four operations of the form `Plain`. xDSL's own definitions (IRDL) cover a part of these dialects and reject tensors in
some of it; to define an operation by IRDL takes longer than to read several lines of a program.
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
    """The property `prop` of an operation that is one node; `kind` is in the notation of signatures.

    `values` gives the attributes of a node that a property (or none) says. In the pretty form a property follows its
    keyword, at a position that the form defines, as `read` parses it and `text` writes it; one without a keyword is among the
    attributes in braces, as `entry` writes it. Both are empty where the node's attributes do not say it.
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
    """An operation that its signature defines. Without `read` it has the generic form only."""

    signature: ClassVar[Signature]
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    traits = traits_def()

    def verify_(self) -> None:
        names = {each.name for each in self.signature.properties}
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
        """Parse the pretty form."""
        return super().parse(parser)

    @classmethod
    def create(cls, *, properties: Mapping[str, Attribute] = {}, attributes: Mapping[str, Attribute] = {}, **others: Any) -> Self:  # fmt: skip
        """Create an operation; older text has properties among the attributes, from where they are moved."""
        names = {each.name for each in cls.signature.properties} - properties.keys()
        moved = {name: attribute for name, attribute in attributes.items() if name in names}
        rest = {name: attribute for name, attribute in attributes.items() if name not in names}
        return super().create(properties={**properties, **moved}, attributes=rest, **others)

    @classmethod
    def of(cls, operands: Sequence[SSAValue], results: Sequence[Attribute], attributes: Mapping[str, Attribute],
           properties: Mapping[str, Attribute] | None = None, regions: Sequence[Region] = ()) -> Self:  # fmt: skip
        """Create an operation that a pretty form says."""
        return cls.create(operands=operands, result_types=results, properties=properties or {}, attributes=attributes, regions=regions)  # fmt: skip


_Form = TypeVar("_Form", bound=TextOperation)


class Yield(TextOperation):
    """`linalg.yield %a, %b : type, type`"""

    traits = traits_def(IsTerminator())

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        return cls.of(parser.parse_typed_values() if parser.at_value() else [], [], {})


def define(form: type[_Form], dialect: str, rows: Mapping[str, str], **members: Any) -> tuple[type[_Form], ...]:
    """Operations of one form: each row is a signature, and the mnemonics of the operations that have it.

    `members` are class attributes of all of them, for example their `FIELDS`.
    """
    fields: Sequence[Field] = members.get("FIELDS", form.FIELDS)
    found: list[type[_Form]] = []
    for line, words in rows.items():
        read = Signature.read(line)
        signature = read._replace(properties=(*read.properties, *(field.property for field in fields)))
        for word in words.split():
            body = {"name": f"{dialect}.{word}", "signature": signature, "__module__": form.__module__, **members}
            found.append(cast("type[_Form]", type(word, (form,), body)))
    return tuple(found)


def values_of(operation: Operation) -> dict[str, Any]:
    """The attributes of a node that the properties of an operation say."""
    found: dict[str, Any] = {}
    for field in type(operation).FIELDS if isinstance(operation, TextOperation) else ():
        found |= field.values(operation.properties.get(field.prop))
    return found


def assignments(parser: Parser) -> tuple[list[UnresolvedOperand], list[UnresolvedOperand]]:
    """`(%a = %x, %b = %y)`: the names inside and the values outside; none without parentheses."""

    def assignment() -> tuple[UnresolvedOperand, UnresolvedOperand]:
        inner = parser.parse_unresolved_operand()
        parser.parse_punctuation("=")
        return inner, parser.parse_unresolved_operand()

    pairs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, assignment) or []
    return [inner for inner, _ in pairs], [outer for _, outer in pairs]


def one_or_more_types(parser: Parser) -> list[Attribute]:
    """`(type, type)`, or `type`"""
    found = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if found is None else list(found)


def result_types(parser: Parser) -> list[Attribute]:
    """`-> type`, `-> (type, type)`, or nothing."""
    return one_or_more_types(parser) if parser.parse_optional_punctuation("->") is not None else []
