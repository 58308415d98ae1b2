"""A one-line notation for operation signatures: operands, results, regions and properties.

    2 -> 1                                     two operands, one result
    1 float -> 1 integer                       the elements of all operands are floats, those of all results integers
    1 tensor -> 1 shape                        tensors of any element type as operands, `!tosa.shape` as results
    1..3 -> 1                                  one to three operands; `1..` one or more, `_` any number
    3+n -> n {1+n -> n}                        a letter is the same number everywhere. The region takes 1+n arguments
                                               and its terminator has n operands; `{1+n}` does not restrict the
                                               terminator
    1 -> n {0 -> n} {0 -> n}?                  the second region may be empty or missing. The suffix `+` means one or
                                               more such regions, `*` any number, and a letter `m` m of them
    1 -> 1 <axis: integer, mode?: MIN|MAX>     a property of a kind in `KINDS`, and an optional property, which is one
                                               of two words
    1 -> 1 <pad: integers(4)>                  a list of four integers
    (1, n) -> 1 <offsets: open(n)>             operands in two segments (`operandSegmentSizes`), and a list of integers
                                               with one dynamic entry per operand of the second segment

Before any conversion, xDSL's `operation.verify` checks an operation against its definition, and `verifying.py` against
its signature. Importers may rely on both. A `TextOperation` has a signature; `Dialect.signatures` adds signatures of
operations whose xDSL definition leaves counts open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue, TypeAttribute
from xdsl.traits import IsTerminator

from meshgen.mlir.attributes import integers, is_integers, is_strings
from meshgen.mlir.dense import DenseElements

Letters = dict[str, int]
"""Letter of a signature -> the count that it stands for in one operation."""

KINDS: dict[str, tuple[str, Callable[[Attribute], bool]]] = {
    "any": ("anything", lambda _: True),
    "integer": ("an integer", lambda attribute: isinstance(attribute, IntegerAttr)),
    "number": ("a number", lambda attribute: isinstance(attribute, IntegerAttr | FloatAttr)),
    "float": ("a float", lambda attribute: isinstance(attribute, FloatAttr)),
    "flag": ("true, false or unit", lambda attribute: isinstance(attribute, IntegerAttr | UnitAttr)),
    "unit": ("unit", lambda attribute: isinstance(attribute, UnitAttr)),
    "string": ("a string", lambda attribute: isinstance(attribute, StringAttr)),
    "symbol": ("a symbol", lambda attribute: isinstance(attribute, SymbolRefAttr)),
    "type": ("a type", lambda attribute: isinstance(attribute, TypeAttribute)),
    "elements": ("dense<...>", lambda attribute: isinstance(attribute, DenseElements)),
    "array": ("a list", lambda attribute: isinstance(attribute, ArrayAttr)),
    "strings": ("a list of strings", is_strings),
    "integers": ("a list of integers", is_integers),
    "counts": (
        "a list of numbers from 0 on",
        lambda attribute: is_integers(attribute) and min(integers(attribute), default=0) >= 0,
    ),
    "open": ("a list of integers", is_integers),
    "map": (
        "an affine map with results",
        lambda attribute: isinstance(attribute, AffineMapAttr) and bool(attribute.data.results),
    ),
    "maps": (
        "a list of affine maps",
        lambda attribute: (
            isinstance(attribute, ArrayAttr) and all(isinstance(item, AffineMapAttr) for item in attribute.data)
        ),
    ),
}
"""Kinds of properties: name -> description for error messages, and predicate. Besides these, a kind may be a
capitalized word (that string) or a name with a dot (an attribute of that name).
"""

_SIGNATURE = re.compile(r"(\([^)]*\)|\S+)( \w+)? -> (\S+)( \w+)?((?: \{[^}]*\}[?*+a-z]?)*)(?: <(.+)>)?")
_REGION = re.compile(r"\{(\S+)(?: -> (\S+))?\}([?*+a-z]?)")
_PROPERTY = re.compile(r"(\w+)(\??): ([^,(]+)(?:\((\S+)\))?(?:, |$)")


_ELEMENTS: dict[str, Callable[[Attribute], bool]] = {
    "": lambda _: True,
    "tensor": lambda kind: isinstance(kind, TensorType),
    "shape": lambda kind: kind.name == "tosa.shape",
    "float": lambda kind: isinstance(_element(kind), AnyFloat),
    "integer": lambda kind: _is_signless(_element(kind)),
}


class Count(NamedTuple):
    """The expected number of operands, results or arguments.

    A number matches if it is between `least` and `most` (None: unbounded), plus the sum of factor * letter over
    `factors`.
    """

    text: str
    least: int
    most: int | None
    factors: tuple[tuple[str, int], ...] = ()

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a count in the notation of this module: `2`, `1..3`, `1..`, `_` or a sum such as `1+2n`."""
        least, dots, most = text.partition("..")
        if dots or text == "_":
            return cls(text, int(least) if dots else 0, int(most) if most else None)
        words = text.split("+")
        factors = tuple((word[-1], int(word[:-1] or 1)) for word in words if word[-1].isalpha())
        fixed = sum(int(word) for word in words if word.isdecimal())
        return cls(text, fixed, fixed, factors)

    def accepts(self, count: int, letters: Letters) -> bool:
        """Whether the number `count` matches.

        If exactly one letter of the count has no value yet, the value that makes `count` match is recorded in
        `letters`.
        """
        rest = count - sum(factor * letters.get(letter, 0) for letter, factor in self.factors)
        unbound = [(letter, factor) for letter, factor in self.factors if letter not in letters]
        if not unbound:
            return self.least <= rest and (self.most is None or rest <= self.most)
        if len(unbound) == 1 and rest >= self.least:
            ((letter, factor),) = unbound
            letters[letter], rest = divmod(rest - self.least, factor)
            return rest == 0
        return rest >= self.least

    def expected_text(self, letters: Letters) -> str:
        """Return the expected count as text for an error message, such as "1 to 3"."""
        if any(letter not in letters for letter, _ in self.factors):
            return self.text
        if not self.factors and self.most != self.least:
            return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
        return str(self.least + sum(factor * letters[letter] for letter, factor in self.factors))


class Body(NamedTuple):
    """The expected form of a single-block region: how many arguments it takes and how many values its terminator has.

    `repeat` says how many regions have this form: "" one, "?" one or none, "*" any number, "+" one or more, a letter:
    its value.
    """

    takes: Count
    gives: Count | None
    repeat: str

    def times(self, rest: int, letters: Letters) -> int:
        """Return the number of regions that have this form.

        `rest` is the number of regions in the operation beyond those that forms without a suffix stand for.
        """
        repeats = {"": 1, "?": min(1, rest), "*": rest, "+": max(1, rest)}
        return max(0, repeats[self.repeat] if self.repeat in repeats else letters.get(self.repeat, rest))

    def faults(self, region: Region, index: int, letters: Letters) -> list[str]:
        if len(region.blocks) != 1:
            return [] if self.repeat == "?" and not region.blocks else [f"region {index} must have a single block"]
        arguments, last = len(region.block.args), region.block.last_op
        if not self.takes.accepts(arguments, letters):
            return [f"region {index} has {arguments} arguments instead of {self.takes.expected_text(letters)}"]
        if self.gives is None:
            return []
        if last is None or not last.has_trait(IsTerminator):
            return [f"region {index} must end with a terminator"]
        if not self.gives.accepts(count := len(last.operands), letters):
            return [f"region {index} yields {count} values instead of {self.gives.expected_text(letters)}"]
        return []


class Property(NamedTuple):
    """The expected kind of a property. `length` is the length of a list, or the number of inputs of an affine map."""

    name: str
    is_optional: bool
    kinds: tuple[str, ...]
    length: Count | None

    def faults(self, attribute: Attribute | None, letters: Letters) -> list[str]:
        if attribute is None:
            return [] if self.is_optional else [f"needs the property {self.name}"]
        if not any(is_kind(attribute, kind) for kind in self.kinds):
            expected = " or ".join(KINDS[kind][0] if kind in KINDS else kind for kind in self.kinds)
            return [f"{self.name} must be {expected}, got {attribute}"]
        if self.length is None:
            return []
        entries, count = ("open entries", _open(attribute)) if "open" in self.kinds else ("entries", _length(attribute))
        if not self.length.accepts(count, letters):
            return [f"{self.name} has {count} {entries} instead of {self.length.expected_text(letters)}"]
        return []


class Values(NamedTuple):
    """The expected operands or results: their element type, and their count, or one count per operand segment."""

    what: str
    counts: tuple[Count, ...]
    element: str

    def faults(self, values: Sequence[SSAValue], segments: Sequence[int], letters: Letters) -> list[str]:
        sizes = segments if len(self.counts) > 1 and segments else [len(values)]
        counts = self.counts if len(sizes) == len(self.counts) else (_total_count(self.counts),)
        if sum(sizes) != len(values) or len(sizes) != len(counts):
            return [f"operandSegmentSizes {list(sizes)} do not fit {len(values)} {self.what}"]
        faults = [
            f"has {size} {self.what}{f' in segment {segment}' if len(sizes) > 1 else ''} instead of {count.expected_text(letters)}"
            for segment, (size, count) in enumerate(zip(sizes, counts, strict=True))
            if not count.accepts(size, letters)
        ]
        wrong = next((value.type for value in values if not _ELEMENTS[self.element](value.type)), None)
        return faults + ([f"{self.what} must be {self.element}s, got {wrong}"] if wrong is not None else [])


class Signature(NamedTuple):
    """The parsed signature of an operation."""

    operands: Values
    results: Values
    regions: tuple[Body, ...]
    properties: tuple[Property, ...]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a signature in the notation of this module."""
        match = _SIGNATURE.fullmatch(text)
        assert match is not None, text
        regions = [
            Body(Count.read(takes), Count.read(gives) if gives else None, repeat)
            for takes, gives, repeat in _REGION.findall(match[5])
        ]
        properties = [
            Property(name, bool(optional), tuple(kinds.split("|")), Count.read(length) if length else None)
            for name, optional, kinds, length in _PROPERTY.findall(match[6] or "")
        ]
        operands = tuple(Count.read(word.strip()) for word in match[1].strip("()").split(","))
        return cls(
            Values("operands", operands, (match[2] or "").strip()),
            Values("results", (Count.read(match[3]),), (match[4] or "").strip()),
            tuple(regions),
            tuple(properties),
        )

    def faults(self, operation: Operation) -> list[str]:
        """Return error messages for an operation that violates the signature. Regions are checked only if the rest is
        valid.
        """
        letters: Letters = {}
        segments = integers(operation.properties.get("operandSegmentSizes"))
        faults = self.results.faults(operation.results, (), letters)
        faults += self.operands.faults(operation.operands, segments, letters)
        for property in self.properties:
            faults += property.faults(operation.properties.get(property.name), letters)
        return faults or self._region_faults(operation.regions, letters)

    def _region_faults(self, regions: Sequence[Region], letters: Letters) -> list[str]:
        rest = len(regions) - sum(body.repeat == "" for body in self.regions)
        bodies = [body for body in self.regions for _ in range(body.times(rest, letters))]
        if len(bodies) != len(regions):
            return [f"has {len(regions)} regions instead of {len(bodies)}"]
        pairs = enumerate(zip(bodies, regions, strict=True))
        return [fault for index, (body, region) in pairs for fault in body.faults(region, index, letters)]


def signatures_of(dialect: str, rows: Mapping[str, str]) -> dict[str, Signature]:
    """Return signatures by operation name. `rows` maps a signature to the mnemonics that have it, separated by blanks."""
    read = ((Signature.read(text), words) for text, words in rows.items())
    return {f"{dialect}.{word}": signature for signature, words in read for word in words.split()}


def is_kind(attribute: Attribute, kind: str) -> bool:
    """Whether the attribute is of the kind `kind`: a key of `KINDS`, the name of an attribute, or a literal string."""
    if kind in KINDS:
        return KINDS[kind][1](attribute)
    if "." in kind:
        return attribute.name == kind
    return isinstance(attribute, StringAttr) and attribute.data == kind


def _length(attribute: Attribute) -> int:
    if isinstance(attribute, AffineMapAttr):
        return attribute.data.num_dims + attribute.data.num_symbols
    return len(attribute.data) if isinstance(attribute, ArrayAttr) else len(integers(attribute))


def _open(attribute: Attribute) -> int:
    """Return the number of dynamic entries in a list of mixed static and dynamic sizes."""
    return integers(attribute).count(DYNAMIC_INDEX)


def _is_signless(kind: Attribute) -> bool:
    if isinstance(kind, IntegerType):
        return kind.signedness.data == Signedness.SIGNLESS
    return isinstance(kind, IndexType)


def _element(kind: Attribute) -> Attribute:
    return kind.element_type if isinstance(kind, TensorType) else kind


def _total_count(counts: Sequence[Count]) -> Count:
    """Return the count of all operands of the operation, given the counts of its segments."""
    if len(counts) == 1:
        return counts[0]
    letters = Counter[str]()
    for count in counts:
        letters.update(dict(count.factors))
    most = None if any(count.most is None for count in counts) else sum(count.most or 0 for count in counts)
    text = "+".join(count.text for count in counts)
    return Count(text, sum(count.least for count in counts), most, tuple(letters.items()))
