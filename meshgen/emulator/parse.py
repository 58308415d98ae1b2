"""Parser of the PTX that LLVM and Triton emit: entry points, and device functions, which it inlines.

Registers and labels that are declared inside `{ ... }` are local to this scope, so they are renamed with the index of
the scope.
Source: PTX ISA 8.7, chapters "Syntax", "State Spaces, Types, and Variables", "Directives".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.operands import operand_of, split_operands
from meshgen.emulator.program import (
    Address,
    Entry,
    Instruction,
    Negated,
    Operand,
    Parameter,
    Program,
    Register,
    Symbol,
    Variable,
    layout,
)
from meshgen.errors import Location

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{")
_THREADS = re.compile(r"\.(maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_VARIABLE = re.compile(
    r"\.(?P<space>shared|local|global|const)\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>[a-z]+\d+)\s+"
    r"(?P<name>[\w$]+)\s*(?P<array>\[\s*(?P<count>\d*)\s*\])?\s*(?:=\s*(?:\{(?P<list>[^}]*)\}|(?P<value>[^;{]+)))?\s*;"
)
_FUNCTION = re.compile(r"\.func\s+(?:\(([^)]*)\))?\s*([\w$]+)\s*\(([^)]*)\)[^{;]*\{")
_CALL = re.compile(r"call(?:\.uni)?\s*(?:\(([^)]*)\)\s*,)?\s*([\w$]+)\s*(?:,\s*\(([^)]*)\))?$")
_GUARDED_CALL = re.compile(r"@!?%?[\w$]+\s+call")
_DEEPEST = 16  # Limit on nested calls. Chosen: calls are inlined, so a recursive function would never end.
_PARAMETER = re.compile(r"\.([busf]\d+|pred)\b")
_STATEMENT = re.compile(
    r"\s*(?:(?P<brace>[{}])|(?P<loc>\.loc\s[^\n]*)|(?P<label>[$%\w]+)\s*:(?!:)|(?P<statement>(?:[^;{}]|\{[^{}]*\})*);)"
)
_LABELS = re.compile(r"(?:^|[;{}])\s*([$%\w]+)\s*:(?!:)")
_WIDEST = 8  # bytes of the widest register (PTX ISA 8.7, `.b64`); wider parameters become several registers
# Limit on the registers of one declaration. Chosen: far above real kernels, so that malformed text cannot exhaust
# memory.
_MOST_REGISTERS = 1 << 20
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_INSTRUCTION = re.compile(r"(?:@(!?)(%?[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.S)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$", re.S)

Place = tuple[int, int, int]  # file, line, column


@functools.lru_cache(maxsize=256)  # cached, because the devices of one machine load the same modules
def parse(text: str) -> Program:
    """Parse a PTX program. Raises DeviceFault "opcode" for unsupported or malformed PTX."""
    files = {int(number): name for number, name in _FILE.findall(text)}
    text = _COMMENT.sub(" ", text)
    text = text.split("\n\t.section")[0]
    target = _TARGET.search(text)
    if target is None:
        raise DeviceFault("opcode", "the text is not PTX: it has no .target")
    functions = {head[2]: _parsed_function(head, _braced_body(text, head.end())) for head in _FUNCTION.finditer(text)}
    entries = {
        head[1]: _parsed_entry(head, _braced_body(text, head.end()), files, text[: head.start()], functions)
        for head in _ENTRY.finditer(text)
    }
    return Program(target[1], entries)


@dataclass(frozen=True)
class _Function:
    """A device function: names of its results and parameters, and the text of its body."""

    results: tuple[str, ...]
    parameters: tuple[str, ...]
    body: str


def _parsed_function(head: re.Match[str], body: str) -> _Function:
    results, parameters = (
        tuple(part.split()[-1].split("[")[0] for part in (text or "").split(",") if part.strip())
        for text in (head[1], head[3])
    )
    return _Function(results, parameters, body)


def _braced_body(text: str, start: int) -> str:
    """Return the text from `start` up to the brace that closes the entry or function."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    raise DeviceFault("opcode", "an entry has no end")


def _parsed_entry(
    head: re.Match[str], body: str, files: dict[int, str], before: str, functions: dict[str, _Function]
) -> Entry:
    reader = _EntryReader(files, functions)
    for variable in _VARIABLE.finditer(before):
        reader.variable(variable)
    reader.read(body)
    threads = _THREADS.search(head[3])
    parameters = tuple(_parameters(head[2]))
    last = parameters[-1] if parameters else None
    counts = [int(n) for n in threads.groups()[1:] if n] if threads else []
    max_threads = 1
    for count in counts:
        max_threads *= count
    return Entry(
        name=head[1], parameters=parameters, max_threads=max_threads if threads else None,
        exact_threads=threads is not None and threads[1] == "reqntid",
        shared_bytes=layout(reader.variables.values(), "shared")[1], parameter_bytes=last.offset + last.size if last else 0,
        code=tuple(reader.code), labels=reader.labels, tables=reader.tables, variables=reader.variables,
    )  # fmt: skip


def _parameters(text: str) -> Iterator[Parameter]:
    offset = 0
    for part in filter(str.strip, text.split(",")):
        type_name = _PARAMETER.search(part)
        name = re.search(r"([\w$]+)\s*(?:\[(\d+)\])?\s*$", part)
        if type_name is None or name is None:
            raise DeviceFault("opcode", f"cannot read the parameter '{part.strip()}'")
        size = int(type_name[1][1:]) // 8
        align = re.search(r"(?<!global )\.align\s+(\d+)", part) if name[2] else None
        alignment = int(align[1]) if align else size
        size *= int(name[2] or 1)
        offset = -(-offset // alignment) * alignment
        yield Parameter(name[1], type_name[1], offset, size, alignment)
        offset += size


@dataclass
class _EntryReader:
    """Parser state for one entry; `scopes` holds registers and renamed labels by name, innermost scope last.

    Attributes:
        numbers: indices of the open scopes; `opened` counts all scopes so far.
        ends: return labels of the calls that are being inlined.
        inlined: source location of inlined code -> source location of the call.
    """

    files: dict[int, str]
    functions: dict[str, _Function]
    code: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    scopes: list[dict[str, Register | str]] = field(default_factory=lambda: [{}])
    numbers: list[int] = field(default_factory=lambda: [0])
    opened: int = 0
    ends: list[str] = field(default_factory=list[str])
    source: Location | None = None
    inlined: dict[Place, Place] = field(default_factory=dict[Place, Place])

    def read(self, body: str) -> None:
        """Parse all statements of `body`."""
        position = 0
        while statement := _STATEMENT.match(body, position):
            position = statement.end()
            if statement["brace"] == "{":
                self.open(body, position)
            elif statement["brace"] == "}":
                self.close()
            elif statement["loc"]:
                self.locate(statement["loc"])
            elif statement["label"]:
                self.labels[self.label(statement["label"])] = len(self.code)
            else:
                self.statement(" ".join(statement["statement"].split()))
        if rest := body[position:].strip():
            raise DeviceFault("opcode", f"cannot read {rest[:60]!r}")

    def open(self, body: str, position: int) -> None:
        """Open the scope at `position` of `body`. Its labels are registered first, because jumps may precede them."""
        self.opened += 1
        self.numbers.append(self.opened)
        inside = body[position : body.find("}", position)]
        self.scopes.append({name: f"{name}@{self.opened}" for name in _LABELS.findall(inside)})

    def close(self) -> None:
        if len(self.scopes) < 2:
            raise DeviceFault("opcode", "unmatched closing brace", self.source)
        self.scopes.pop()
        self.numbers.pop()

    def label(self, name: str) -> str:
        renamed = next((scope[name] for scope in reversed(self.scopes) if name in scope), name)
        return renamed if isinstance(renamed, str) else name

    def register(self, name: str) -> Register | str | None:
        """Return the register or label called `name` in the innermost scope that declares it, or None if no scope does."""
        for scope in reversed(self.scopes):
            if entry := scope.get(name):
                return entry
        return None

    def locate(self, text: str) -> None:
        """Set `source` from a `.loc`, for inlined code to the location of the outermost call in the kernel."""
        match = _LOC.match(text)
        if match is None:
            return
        location: Place = (int(match[1]), int(match[2]), int(match[3]))
        if match[4]:
            self.inlined[location] = (int(match[4]), int(match[5]), int(match[6]))
        else:
            self.inlined.pop(location, None)
        seen = {location}
        while location in self.inlined and self.inlined[location] not in seen:
            location = self.inlined[location]
            seen.add(location)
        self.source = Location(self.files.get(location[0], ""), location[1], location[2])

    def statement(self, text: str) -> None:
        if text.startswith("."):
            self.directive(text)
        elif text.startswith("call") or _GUARDED_CALL.match(text):
            self.call(text)
        elif text:
            self.instruction(text)

    def directive(self, text: str) -> None:
        if match := _REGISTERS.match(text):
            self.declare(match[1], match[2])
        elif match := _VARIABLE.match(f"{text};"):
            self.variable(match)
        elif text.startswith(".param"):
            self.parameter(text)
        elif text.startswith(".branchtargets"):
            name = next(label for label, index in reversed(self.labels.items()) if index == len(self.code))
            self.tables[name] = tuple(self.label(part.strip()) for part in text.split(None, 1)[1].split(","))
        elif not text.startswith(".pragma"):
            self.instruction(text)

    def declare(self, type_name: str, names: str) -> None:
        """Declare registers, as in `.reg .b32 %r<9>, %x`."""
        width = 0 if type_name == "pred" else int(type_name[1:]) // 8
        for name in map(str.strip, names.split(",")):
            range_match = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            if range_match and int(range_match[2]) > _MOST_REGISTERS:
                raise DeviceFault("opcode", f"{range_match[2]} registers are declared at once", self.source)
            for register_name in (
                [f"{range_match[1]}{n}" for n in range(int(range_match[2]))] if range_match else [name]
            ):
                unique = f"{register_name}@{self.numbers[-1]}" if self.numbers[-1] else register_name
                self.scopes[-1][register_name] = Register(unique, width)

    def variable(self, match: re.Match[str]) -> None:
        width = int(match["type"][1:]) // 8
        values = [part for part in (match["list"] or match["value"] or "").split(",") if part.strip()]
        count = int(match["count"] or 0) if match["array"] else 1
        initial = b"".join((int(v, 0) % (1 << 8 * width)).to_bytes(width, "little") for v in values)
        size = max(count * width, len(initial))
        self.variables[match["name"]] = Variable(
            match["name"],
            match["space"],
            size,
            int(match["align"] or width),
            initial.ljust(size, b"\0") if initial else b"",
        )

    def parameter(self, text: str) -> None:
        """Declare the registers that stand for a call parameter, such as `.param .b64 param0`."""
        match = re.fullmatch(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w\d+)\s+([\w$]+)(?:\[(\d+)\])?", text)
        if match is None:
            raise DeviceFault("opcode", f"only numbers are passed to functions, not {text!r}", self.source)
        self.declare(f"b{8 * int(match[3])}" if match[3] else match[1], match[2])

    def call(self, text: str) -> None:
        """Inline the body of the called function."""
        guarded = re.match(r"@(!?)(%?[\w$]+)\s+(.*)$", text)
        match = _CALL.match(guarded[3] if guarded else text)
        function = self.functions.get(match[2]) if match else None
        if match is None or function is None or len(self.ends) >= _DEEPEST:
            raise DeviceFault(
                "opcode", f"the emulated GPU does not support the function called by {text!r}", self.source
            )
        arguments = [
            part.strip() for group in (match[1], match[3]) for part in (group or "").split(",") if part.strip()
        ]
        names = [*function.results, *function.parameters]
        registers = [self.register(name) for name in arguments]
        if len(names) != len(arguments) or not all(isinstance(register, Register) for register in registers):
            raise DeviceFault("opcode", f"the arguments of {text!r} do not match the function", self.source)
        self.opened += 1
        end = f"return@{self.opened}"
        if guarded:
            self.jump(end, self.guard(guarded[2], not guarded[1], text))
        labels = {name: f"{name}@{self.opened}" for name in _LABELS.findall(function.body)}
        outer_scopes = self.scopes, self.numbers
        inner_scope: dict[str, Register | str] = labels | {n: r for n, r in zip(names, registers, strict=True) if r}
        self.scopes, self.numbers = [inner_scope], [self.opened]
        self.ends.append(end)
        self.read(function.body)
        self.ends.pop()
        self.scopes, self.numbers = outer_scopes
        self.labels[end] = len(self.code)

    def jump(self, label: str, guard: Register | Negated | None) -> None:
        self.code.append(Instruction("bra", ("uni",), (Symbol(label),), guard, f"bra {label}", self.source))

    def instruction(self, text: str) -> None:
        match = _INSTRUCTION.match(text)
        if match is None:
            raise DeviceFault("opcode", f"cannot read {text[:80]!r}", self.source)
        guard = self.guard(match[2], bool(match[1]), text) if match[2] else None
        opcode, *modifiers = match[3].split(".")
        operands = tuple(operand_of(part, self.register, text) for part in split_operands(match[4]))
        if opcode == "ret" and self.ends:
            self.jump(self.ends[-1], guard)
            return
        if opcode in ("ld", "st") and modifiers[:1] == ["param"]:
            opcode, modifiers, operands = _as_register_move(opcode, modifiers, operands)
        self.code.append(Instruction(opcode, tuple(modifiers), operands, guard, text, self.source))

    def guard(self, name: str, negated: bool, text: str) -> Register | Negated:
        register = self.register(name)
        if not isinstance(register, Register):
            raise DeviceFault("opcode", f"'{name}' is not a register in {text!r}", self.source)
        return Negated(register) if negated else register


def _as_register_move(
    opcode: str, modifiers: list[str], operands: tuple[Operand, ...]
) -> tuple[str, list[str], tuple[Operand, ...]]:
    """Turn `ld.param` and `st.param` of a call parameter into a move between registers.

    Other accesses are returned unchanged, such as those to the parameters of the entry, which are in memory.
    """
    address = operands[1 if opcode == "ld" else 0]
    if not isinstance(address, Address) or not isinstance(address.base, Register) or len(modifiers) != 2:
        return opcode, modifiers, operands
    register = address.base
    if register.name.startswith("%"):
        return opcode, modifiers, operands
    if register.width > _WIDEST:
        register = Register(f"{register.name}+{address.offset}", int(modifiers[1][1:]) // 8)
    elif address.offset:
        return opcode, modifiers, operands
    return "mov", modifiers[1:], (operands[0], register) if opcode == "ld" else (register, operands[1])
