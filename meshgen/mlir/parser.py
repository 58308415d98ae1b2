"""Parser of MLIR text: xDSL's parser, extended by source positions, value names and locations, with faster hot paths.

xDSL drops the positions of operations and the names of values, which diagnostics need. Lines that repeat an earlier
line are not tokenized (`repeated_lines.py`), each spelling of a tensor type is parsed once, and `dense.py` reads dense
constants.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.builtin import LocationAttr, NameLoc, NoneAttr, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from meshgen.errors import Location
from meshgen.mlir.dense import read_dense
from meshgen.mlir.lexer import TextLexer
from meshgen.mlir.locations import Locations
from meshgen.mlir.old_names import OLD_KEYWORDS, OLD_PROPERTIES, base_name, name_at
from meshgen.mlir.repeated_lines import Line, Lines, append

_TENSOR = re.compile(r'tensor<[^<>"]*(?:<(?:[^<>"]|"[^"]*")*>[^<>"]*)*>')
_DENSE = re.compile(r"<([^<>]*)>")
_LABEL = re.compile(r"\{(?>\s*(?://[^\n]*\s*)*)\^")
_RESOURCE_NAME = re.compile(r'<\s*"?([^<>"]*?)"?\s*>')
_RESOURCE = re.compile(r'([\w$.-]+|"[^"]*")\s*:\s*"0x([0-9A-Fa-f]*)"')
_INTEGERS = re.compile(r"\[([-\d,\s]*)\]")
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|->|[()\[\]{}<>]')
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}
_PACKS = {"shard.neighbors_linear_indices": 2}  # Operations whose results share one name -> the number of their results


class TextParser(Parser):
    """Parser of a module that records the location of each operation and argument, and the name of each value."""

    def __init__(self, context: Context, text: str, file: str) -> None:
        text, self._locations = Locations.extract_aliases(text)
        # An empty input, since the default lexer would read the first token of the text
        super().__init__(context, "", file)
        self._parser_state.lexer = TextLexer(Input(text, file))
        self._parser_state.current_token = self._parser_state.lexer.lex()
        self._file = file
        self._line_starts = [0] + [match.end() for match in re.finditer("\n", text)]
        self._positions: dict[Operation | SSAValue, int] = {}
        # operation that was copied from an earlier line -> the location alias of its own line
        self._aliases: dict[Operation | SSAValue, str] = {}
        self._names: dict[SSAValue, str] = {}
        self._tensor_types: dict[str, TypeAttribute] = {}
        self._first_uses: dict[str, int] = {}
        self.lines = Lines(text)

    def location_at(self, position: int) -> Location:
        """Return the file, line and column of a text offset."""
        line = bisect_right(self._line_starts, position)
        return Location(self._file, line, position - self._line_starts[line - 1] + 1)

    def locate(self, item: Operation | SSAValue) -> Location | None:
        """Return the location of an operation or argument: the one in its `loc(...)`, else its position in this text."""
        if (location := self.named_location(item)) is not None:
            return location
        position = self._positions.get(item)
        return None if position is None else self.location_at(position)

    def named_location(self, item: Operation | SSAValue) -> Location | None:
        """Return the location that an operation or argument states by `loc(...)`, or None if it has no `loc`."""
        if (alias := self._aliases.get(item)) is not None:
            return self._locations.resolve(alias)
        location = item.location if isinstance(item, Operation | BlockArgument) else None
        return self._locations.resolve(location.desc.data) if isinstance(location, NameLoc) else None

    def location_name(self, argument: BlockArgument) -> str:
        """Return the name in the location `loc("x")` of an argument, or "" for other locations."""
        return self._locations.name(argument.location.desc.data) if isinstance(argument.location, NameLoc) else ""

    def name_of(self, value: SSAValue) -> str:
        """Return the name of a value in the text, without `%`, or "" for a value that shares its name with other
        results.
        """
        return self._names.get(value, "")

    def undefined_at(self) -> int | None:
        """Return the text offset of the first use of an undefined value, or None if parsing has not reached the end of
        the text.
        """
        if self._current_token.kind is not MLIRTokenKind.EOF:
            return None
        uses = (self._first_uses[name] for name in self.forward_ssa_references if name in self._first_uses)
        return min(uses, default=None)

    # The following methods override those of xDSL's parser.

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        line = self.lines.at(start, self._parser_state.dialect_stack)
        operation = super().parse_operation()
        if line:
            self.lines.record(line, operation, self.ssa_values, self._current_token.span.start)
        self._positions[operation] = start
        return operation

    def _parse_block_body(self, block: Block) -> None:
        self._parse_repeated(block)
        while (operation := self.parse_optional_operation()) is not None:
            block.add_op(operation)
            self._parse_repeated(block)

    def _parse_repeated(self, block: Block) -> None:
        """Append copies for the following lines to `block`, up to the first line that does not repeat an earlier one."""
        start = position = self._current_token.span.start
        dialect_stack = tuple(self._parser_state.dialect_stack)
        while (line := self.lines.at(position, dialect_stack)) and (operation := self._replayed(line)):
            append(block, operation)
            self._positions[operation] = self._positions[operation.results[0]] = position
            if line.loc:
                self._aliases[operation] = line.loc
            position = line.next
        if position != start:
            self._resume_from(position)

    def _replayed(self, line: Line) -> Operation | None:
        """Return a named copy of the operation of an earlier equal line, or None if the line must be parsed."""
        name = line.result
        if name in self.ssa_values or name in self.forward_ssa_references:
            return None
        if (operation := self.lines.replay(line, self.ssa_values)) is not None:
            self.ssa_values[name] = operation.results
            result = operation.results[0]
            self._names[result] = name
            if not name.isdecimal():
                result.name_hint = name
        return operation

    def _parse_block(self) -> Block:
        if self._current_token.kind is not MLIRTokenKind.CARET_IDENT:
            self.fail("expected an operation, or '}' at the end of the region")
        return super()._parse_block()

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        """Parse the names on the left-hand side. For the operations in `_PACKS`, one name may denote all results."""
        results = super()._parse_op_result_list()
        if len(results) == 1 and results[0][1] == 1:
            return [(results[0][0], _PACKS.get(base_name(self._current_token.text), 1))]
        return results

    def parse_optional_location(self) -> LocationAttr | None:
        """Parse `loc(...)` and store its text. The text is resolved only when the location is needed."""
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text != "loc":
            return None
        self._parse_token(MLIRTokenKind.BARE_IDENT, "expected loc")
        return NameLoc(StringAttr(self.parse_bracketed("(")), NoneAttr())

    def _get_op_by_name(self, name: str) -> type[Operation]:
        return super()._get_op_by_name(name_at(name, self.lexer.input.content, self._current_token.span.start))

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        operation = super()._parse_generic_operation(op_type)
        if operation.name.startswith(("shard.", "meshgen.")):
            for old, new in OLD_PROPERTIES.items():
                property = operation.properties.pop(old, None) or operation.attributes.pop(old, None)
                if property is not None:
                    operation.properties[new] = property
        return operation

    def parse_optional_keyword(self, keyword: str) -> str | None:
        old = OLD_KEYWORDS.get(keyword)
        return super().parse_optional_keyword(keyword) or (super().parse_optional_keyword(old) if old else None)

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> Any:
        return super()._parse_dialect_type_or_attribute_body(
            base_name(attr_name), is_type, is_opaque, starting_opaque_pos
        )

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        for index, value in enumerate(values):
            if len(values) == 1:
                self._names[value] = name
            elif not name.isdecimal():
                self._names[value] = f"{name}_{index}"
            self._positions[value] = span.start

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> Any:
        value = super().resolve_operand(operand, type)
        if isinstance(value, ForwardDeclaredValue):
            self._first_uses.setdefault(operand.operand_name, operand.span.start)
        return value

    def parse_optional_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text != "tensor":
            return super().parse_optional_type()
        match = _TENSOR.match(self.lexer.input.content, token.span.start)
        if match is not None and (known_type := self._tensor_types.get(match[0])) is not None:
            self._resume_from(match.end())
            return known_type
        parsed = super().parse_optional_type()
        if match is not None and parsed is not None and not self.lexer.input.content[match.end() : self.pos].strip():
            self._tensor_types[match[0]] = parsed
        return parsed

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        start = self._current_token.span.start
        match = self.scan(_DENSE, "expected a dense literal")
        if type is None:
            self.parse_punctuation(":")
            type = self.parse_type()
        # Old texts write lists of numbers in attributes as `strides = dense<2> : vector<2xi64>`.
        if isinstance(type, builtin.VectorType):
            type = builtin.TensorType(type.element_type, type.get_shape())
        return self._constant(match[1], type, start)

    def _parse_builtin_dense_resource_attr(self) -> Any:
        """Parse a constant whose bytes are in the resource section at the end of the text. The first 4 bytes there are
        the alignment.
        """
        start = self._current_token.span.start
        name = self.scan(_RESOURCE_NAME, "expected the name of a resource")[1]
        self.parse_punctuation(":")
        type = self.parse_type()
        if name not in self._blobs:
            self.raise_error(f"unknown resource '{name}'", start)
        first, end = self._blobs[name]
        return self._constant(f'"0x{self.lexer.input.content[first + 8 : end]}"', type, start)

    def _constant(self, body: str, type: Any, start: int) -> Any:
        if not isinstance(type, builtin.TensorType) or any(size < 0 for size in type.get_shape()):
            self.raise_error("a constant needs a tensor type of static shape", start)
        try:
            return read_dense(body, type)
        except (ValueError, KeyError, OverflowError) as error:
            self.raise_error(str(error), start)

    @cached_property
    def _blobs(self) -> dict[str, tuple[int, int]]:
        """Return for each resource name the start and end of its hexadecimal digits in the text."""
        return {match[1].strip('"'): match.span(2) for match in _RESOURCE.finditer(self.lexer.input.content)}

    def at(self, pattern: re.Pattern[str]) -> bool:
        """Whether the raw text at the current token matches `pattern`."""
        return pattern.match(self.lexer.input.content, self._current_token.span.start) is not None

    def scan(self, pattern: re.Pattern[str], message: str) -> re.Match[str]:
        """Match `pattern` against the raw text at the current token and advance past the match."""
        match = pattern.match(self.lexer.input.content, self._current_token.span.start)
        if match is None:
            self.raise_error(message)
        self._resume_from(match.end())
        return match

    def parse_bracketed(self, opening: str = "<") -> str:
        """Return the raw text between the bracket at the current token and its closing bracket, and advance past both."""
        if self._current_token.text != opening:
            self.fail(f"'{opening}' expected")
        start, open_brackets = self._current_token.span.end, [opening]
        for match in _NESTING.finditer(self.lexer.input.content, start):
            if match[0] in _OPENING.values():
                open_brackets.append(match[0])
            elif match[0] in _OPENING:
                if open_brackets.pop() != _OPENING[match[0]]:
                    break
                if not open_brackets:
                    self._resume_from(match.end())
                    return self.lexer.input.content[start : match.start()]
        return self.raise_error(f"this '{opening}' is not closed")

    def parse_integers(self) -> tuple[int, ...]:
        """Parse a list of integers such as `[1, 2]`."""
        body = self.scan(_INTEGERS, "expected a list of integers")[1].strip()
        return tuple(int(word) for word in body.split(",")) if body else ()

    def parse_clause(self, keyword: str) -> None:
        """Parse `, KEYWORD =`."""
        self.parse_punctuation(",")
        self.parse_keyword(keyword)
        self.parse_punctuation("=")

    def parse_signature(self, operands: Sequence[UnresolvedOperand]) -> tuple[list[SSAValue], list[Attribute]]:
        """Parse `: type` (of all operands and the result) or `: (types) -> types`. Returns the operands and the result
        types.
        """
        self.parse_punctuation(":")
        start = self.pos
        if self._current_token.kind is MLIRTokenKind.L_PAREN:
            kind = self.parse_function_type()
            return list(self.resolve_operands(operands, kind.inputs.data, start)), list(kind.outputs.data)
        type = self.parse_type()
        return [self.resolve_operand(operand, type) for operand in operands], [type]

    def parse_values(self) -> list[UnresolvedOperand]:
        """Parse one or more SSA names such as `%a, %b`, up to a comma that is not followed by `%`."""
        values = [self.parse_unresolved_operand()]
        while self._current_token.kind is MLIRTokenKind.COMMA and self._next_is_value():
            self.parse_punctuation(",")
            values.append(self.parse_unresolved_operand())
        return values

    def parse_typed_values(self) -> list[SSAValue]:
        """Parse `%a, %b : type, type` and resolve the values."""
        names, start = self.parse_values(), self.pos
        self.parse_punctuation(":")
        types = self.parse_comma_separated_list(self.Delimiter.NONE, self.parse_type)
        return list(self.resolve_operands(names, types, start))

    def at_value(self) -> bool:
        """Whether the current token is an SSA name."""
        return self._current_token.kind is MLIRTokenKind.PERCENT_IDENT

    def at_mark(self, mark: str) -> bool:
        """Whether the current token starts with the character `mark`."""
        return self._current_token.text.startswith(mark)

    def at_block_label(self) -> bool:
        """Whether the current token opens a region whose first block starts with a label."""
        return self.at(_LABEL)

    def _next_is_value(self) -> bool:
        content, position = self.lexer.input.content, self._current_token.span.end
        while content[position : position + 1].isspace():
            position += 1
        return content[position : position + 1] == "%"

    def parse_region_argument(self) -> Parser.Argument:
        """Parse `%a: type {attributes} loc(...)`. The attributes are ignored."""
        argument = self.parse_argument()
        self.parse_optional_attr_dict()
        return replace(argument, location=self.parse_optional_location())

    def parse_named_region(self, arguments: Sequence[tuple[UnresolvedOperand, Attribute]]) -> Region:
        """Parse a region in braces whose entry block has the arguments `arguments`, which the text declares before the
        region.
        """
        return self.parse_region([Parser.Argument(value.span, type) for value, type in arguments])

    def fail(self, message: str) -> NoReturn:
        """Raise a parse error at the current token."""
        self.raise_error(message)
