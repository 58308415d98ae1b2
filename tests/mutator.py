"""Small random errors in programs. Operands, results, regions, arguments or lines are dropped, duplicated, moved or
replaced. Types, numbers, attributes or operation names are changed.

The errors are made in xDSL's operations. The result is printed in generic form, which can express more invalid programs
than the pretty form.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.printer import Printer

from meshgen.mlir.families import dialects
from meshgen.mlir.parser import TextParser

_NUMBER = re.compile(r"(?<![\w%.$])-?\d+(?![\w.])|(?<=[x<])\d+(?=x)")
_AXIS = re.compile(r'"([a-z]\w{0,2})"(?!\s*=)')
_AXES = re.compile(r"\{[^{}=:\n]*\}(?=[\],}])")
_TYPE = re.compile(r"tensor<[^<>]*>")
_ELEMENT = re.compile(r"\b(?:f32|f64|bf16|i1|i8|i32|i64|index)\b(?=>)")
_NUMBERS = (0, -1, 1, 2, 3, 7, 64, 2**31, 2**40, 2**63, 2**70)
_ELEMENTS: tuple[Attribute, ...] = (
    builtin.f32, builtin.f64, builtin.bf16, builtin.i1, builtin.i32, builtin.i64, builtin.ComplexType(builtin.f32),
)  # fmt: skip
_ATTRIBUTES: tuple[Attribute, ...] = (
    builtin.UnitAttr(), builtin.StringAttr("?"), builtin.IntegerAttr(1, 64), builtin.FloatAttr(0.5, 32), builtin.i1,
    builtin.ArrayAttr([]), builtin.ArrayAttr([builtin.UnitAttr()]), builtin.SymbolRefAttr("main"), builtin.DictionaryAttr({}),
    builtin.DenseArrayBase.from_list(builtin.i64, [0, 1]), builtin.AffineMapAttr(AffineMap.identity(2)),
)  # fmt: skip


@functools.lru_cache(1)
def _parsed(text: str) -> builtin.ModuleOp:
    """Parse a program. The result is cached, because consecutive mutants are often of the same program."""
    return TextParser(dialects().context, text, "-").parse_module()


def _generic(top: Operation) -> str:
    stream = io.StringIO()
    Printer(stream=stream, print_generic_format=True).print_op(top)
    return stream.getvalue()


class Mutator:
    """A source of small random errors in programs, with a seeded generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def mutate(self, text: str, slips: int) -> str:
        """Return the program in generic form with `slips` random errors, or the original text with a single error."""
        top = _parsed(text).clone()
        if self.chance(0.4):
            return self.misnumbered(_generic(top)) if self.chance(0.7) else self.retyped(_generic(top))
        if _AXIS.search(text) and self.chance(0.6):
            return self.misnamed(text)
        mutated = _generic(top)
        for _ in range(slips):
            before, tries = mutated, 0
            while mutated == before and tries < 20:  # some errors are impossible for some operations
                operations = [
                    operation
                    for operation in top.walk()
                    if operation.parent_op() not in (None, top) or self.chance(0.1)
                ]
                self.pick(_SLIPS)(self, self.pick(operations or list(top.walk())[-1:]))
                mutated, tries = _generic(top), tries + 1
        return mutated

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def misnumbered(self, text: str) -> str:
        """Return the text with one number replaced."""
        matches = list(_NUMBER.finditer(text))
        if not matches:
            return text
        match = self.pick(matches)
        return f"{text[: match.start()]}{self.number(int(match[0]))}{text[match.end() :]}"

    def retyped(self, text: str) -> str:
        """Return the text with all occurrences of one type changed: to another type of the text, another size or
        another element type.
        """
        types = sorted(set(_TYPE.findall(text)))
        if not types:
            return text
        old, elements = self.pick(types), _ELEMENT.findall("".join(types))
        if elements and self.chance(0.5):
            element, other = self.pick(elements), self.pick(("f32", "i32", "i1", "i8", "index", "bf16", "ui8"))
            return re.sub(rf"\b{element}\b(?=>)", other, text)
        sized = re.sub(r"\d+(?=x)", lambda match: str(self.pick((match[0], 0, 1, 2, int(match[0]) + 1))), old)
        return text.replace(old, self.pick((*types, sized, sized, re.sub(r"\d+(?=x)", "?", old, count=1))))

    def misnamed(self, text: str) -> str:
        """Return the text with an error in one sharding: an axis is replaced, or a list of axes is emptied or filled."""
        names = [match[1] for match in _AXIS.finditer(text)] + ["zz"]
        match = self.pick(list(_AXES.finditer(text)) + list(_AXIS.finditer(text)))
        if match.re is _AXIS:
            other = self.pick([f'"{self.pick(names)}"', f'"{match[1]}", "{self.pick(names)}"', f'"{match[1]}":(1)2'])
        else:
            other = self.pick(["{}", f'{{"{self.pick(names)}"}}', "{?}", "{}, {}"])
        return f"{text[: match.start()]}{other}{text[match.end() :]}"

    def number(self, before: int) -> int:
        return before + self.pick((-1, 1)) if self.chance(0.4) else self.pick(_NUMBERS)

    def changed(self, items: Sequence[Any], other: Callable[[Any], Any]) -> list[Any]:
        """Return a copy of the list with an error: an entry is dropped, duplicated, swapped with another one, or
        replaced by `other(entry)`.
        """
        entries = list(items)
        if not entries:
            return entries
        index = int(self.rng.integers(len(entries)))
        change = int(self.rng.integers(4))
        if change == 0:
            del entries[index]
        elif change == 1:
            entries.insert(index, entries[index])
        elif change == 2:
            other_index = int(self.rng.integers(len(entries)))
            entries[index], entries[other_index] = entries[other_index], entries[index]
        else:
            entries[index] = other(entries[index])
        return entries

    def visible(self, operation: Operation) -> list[SSAValue]:
        """Return values that are defined in the blocks around an operation. Some of them are defined after the
        operation.
        """
        values: list[SSAValue] = []
        block = operation.parent
        while block is not None:
            values += [
                *block.args,
                *(result for operation_of_block in block.ops for result in operation_of_block.results),
            ]
            outer = block.parent_op()
            block = outer.parent if outer is not None else None
        return values

    def type(self, kind: Any) -> Any:
        if not isinstance(kind, builtin.TensorType):
            return builtin.TensorType(builtin.f32, [4])
        shape, element = list(kind.get_shape()), kind.element_type
        if self.chance(0.3):
            return builtin.TensorType(self.pick(_ELEMENTS), shape, kind.encoding)
        shape = (
            self.changed(shape, lambda size: self.pick((0, 1, -1, size + 1, max(size - 1, 0), 2**20))) if shape else [4]
        )
        return builtin.TensorType(element, shape, kind.encoding)

    def attribute(self, attribute: Attribute) -> Attribute:
        if self.chance(0.15):
            return self.pick(_ATTRIBUTES)
        if isinstance(attribute, builtin.IntegerAttr):
            half = 1 << getattr(attribute.type, "bitwidth", 64) - 1
            return builtin.IntegerAttr((self.number(attribute.value.data) + half) % (2 * half) - half, attribute.type)
        if isinstance(attribute, builtin.DenseArrayBase):
            values = self.changed(list(attribute.get_values()), lambda n: self.pick((0, -1, int(n) + 1, 9, 2**40)))
            return builtin.DenseArrayBase.from_list(builtin.i64, [int(n) for n in values])
        if isinstance(attribute, builtin.ArrayAttr):
            return builtin.ArrayAttr(self.changed(attribute.data, self.attribute))
        if isinstance(attribute, builtin.StringAttr):
            return builtin.StringAttr(attribute.data[1:])
        return self.pick(_ATTRIBUTES)

    def rebuilt(self, operation: Operation, *, operands: Sequence[SSAValue] | None = None, types: Sequence[Attribute] | None = None,
                properties: dict[str, Attribute] | None = None, regions: Sequence[Region] | None = None,
                kind: type[Operation] | None = None) -> None:  # fmt: skip
        """Replace an operation with a changed copy. Where the copy has fewer results, users of the missing ones use
        another value.
        """
        block = operation.parent
        if block is None:
            return
        kept_regions = list(operation.regions) if regions is None else list(regions)
        for region in operation.regions:
            operation.detach_region(region)
        new = (kind or type(operation)).create(
            operands=list(operation.operands) if operands is None else operands,
            result_types=list(operation.result_types) if types is None else types,
            properties=dict(operation.properties) if properties is None else properties,
            attributes=dict(operation.attributes),
            regions=kept_regions,
        )
        block.insert_op_before(new, operation)
        replacements = [*new.results, *(value for value in self.visible(new) if value not in operation.results)]
        for index, result in enumerate(operation.results):
            if any(True for _ in result.uses):
                if not replacements:
                    continue
                result.replace_all_uses_with(new.results[index] if index < len(new.results) else replacements[0])
        operation.detach()
        operation.erase(safe_erase=False)


def _operands(mutator: Mutator, operation: Operation) -> None:
    values = mutator.visible(operation) or operation.operands
    mutator.rebuilt(operation, operands=mutator.changed(operation.operands, lambda _: mutator.pick(values)))


def _results(mutator: Mutator, operation: Operation) -> None:
    mutator.rebuilt(operation, types=mutator.changed(operation.result_types, mutator.type))


def _properties(mutator: Mutator, operation: Operation) -> None:
    names = list(operation.properties)
    if not names:
        return
    name, properties = mutator.pick(names), dict(operation.properties)
    properties[name] = mutator.attribute(properties[name])
    other = mutator.pick(names)
    if mutator.chance(0.2):
        del properties[name]
    elif mutator.chance(0.2):
        properties[name] = operation.properties[other]
    mutator.rebuilt(operation, properties=properties)


def _attributes(mutator: Mutator, operation: Operation) -> None:
    if operation.attributes:
        name = mutator.pick(list(operation.attributes))
        operation.attributes[name] = mutator.attribute(operation.attributes[name])


def _regions(mutator: Mutator, operation: Operation) -> None:
    if not operation.regions:
        return
    index = int(mutator.rng.integers(len(operation.regions)))
    copy = operation.regions[index].clone()
    regions = [region for position, region in enumerate(operation.regions) if position != index]
    mutator.rebuilt(operation, regions=regions if mutator.chance(0.5) else [*regions, copy, copy.clone()])


def _arguments(mutator: Mutator, operation: Operation) -> None:
    blocks: list[Block] = [block for region in operation.regions for block in region.blocks]
    if not blocks:
        return
    block = mutator.pick(blocks)
    if not block.args or mutator.chance(0.3):
        block.insert_arg(builtin.TensorType(builtin.f32, []), len(block.args))
        return
    argument = mutator.pick(list(block.args))
    new = block.insert_arg(mutator.type(argument.type), argument.index)
    argument.replace_all_uses_with(new)
    if mutator.chance(0.7):
        block.erase_arg(argument)


def _order(mutator: Mutator, operation: Operation) -> None:
    if (after := operation.next_op) is not None and operation.parent is not None:
        operation.detach()
        after.parent.insert_op_after(operation, after)  # pyright: ignore[reportOptionalMemberAccess]


def _exchange(mutator: Mutator, operation: Operation) -> None:
    """Replace the operation's name with that of another operation of its dialect."""
    dialect = operation.name.partition(".")[0]
    mutator.rebuilt(
        operation,
        kind=mutator.pick(
            [op_type for op_type in dialects().context.loaded_ops if op_type.name.startswith(f"{dialect}.")]
        ),
    )


def _double(mutator: Mutator, operation: Operation) -> None:
    if operation.parent is not None:
        operation.parent.insert_op_after(operation.clone(), operation)


def _move(mutator: Mutator, operation: Operation) -> None:
    """Move `operation` to the start of another random block of the program, which must not be inside the operation."""
    top = operation
    while (outer := top.parent_op()) is not None:
        top = outer
    inner_blocks = [block for nested in operation.walk() for region in nested.regions for block in region.blocks]
    blocks = [block for nested in top.walk() for region in nested.regions for block in region.blocks]
    candidate_blocks = [
        block
        for block in blocks
        if block is not operation.parent and not any(block is nested for nested in inner_blocks)
    ]
    if operation.parent is not None and candidate_blocks:
        target = mutator.pick(candidate_blocks)
        operation.detach()
        if target.first_op is None:
            target.add_op(operation)
        else:
            target.insert_op_before(operation, target.first_op)


def _drop(mutator: Mutator, operation: Operation) -> None:
    values = [value for value in mutator.visible(operation) if value not in operation.results]
    if values and operation.parent is not None:
        for result in operation.results:
            result.replace_all_uses_with(mutator.pick(values))
        operation.detach()
        operation.erase(safe_erase=False)


_SLIPS: tuple[Callable[[Mutator, Operation], None], ...] = (
    _operands, _operands, _results, _properties, _properties, _properties, _attributes, _regions, _arguments, _order, _drop, _exchange,
    _exchange, _double, _move,
)  # fmt: skip


def mutant(text: str, seed: int) -> str:
    """Return the mutant of a program for this seed. In one of five mutants, only a number in the text is changed."""
    mutator = Mutator(np.random.default_rng(seed))
    if mutator.chance(0.2):
        return mutator.misnumbered(text)
    return mutator.mutate(text, int(mutator.rng.integers(1, 4)))
