"""PTX text to a program. Takes the PTX that LLVM and Triton write: entry points, no device functions.

Names of registers and labels in `{ ... }` hold inside it only, so each gets the number of its scope.
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
_DEEPEST = 16  # calls inside each other; code is inlined, so recursion is impossible
_PARAMETER = re.compile(r"\.([busf]\d+|pred)\b")
_STATEMENT = re.compile(
    r"\s*(?:(?P<brace>[{}])|(?P<loc>\.loc\s[^\n]*)|(?P<label>[$%\w]+)\s*:(?!:)|(?P<statement>(?:[^;{}]|\{[^{}]*\})*);)"
)
_LABELS = re.compile(r"(?:^|[;{}])\s*([$%\w]+)\s*:(?!:)")
_WIDEST = 8  # bytes of a register; what is wider is passed as several numbers
_MOST_REGISTERS = 1 << 20  # of one declaration
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_INSTRUCTION = re.compile(r"(?:@(!?)(%?[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.S)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$", re.S)

Place = tuple[int, int, int]  # file, line, column


@functools.lru_cache(maxsize=256)  # devices of one machine load the same modules
def parse(text: str) -> Program:
    """Parse a program. Raises DeviceFault of kind "opcode" for unsupported or malformed PTX."""
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
    """A device function: names of its results and parameters, and its code."""

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
    """The text up to the brace that closes an entry."""
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
    for found in _VARIABLE.finditer(before):
        reader.variable(found)
    reader.read(body)
    threads = _THREADS.search(head[3])
    parameters = tuple(_parameters(head[2]))
    last = parameters[-1] if parameters else None
    counts = [int(n) for n in threads.groups()[1:] if n] if threads else []
    most = 1
    for count in counts:
        most *= count
    return Entry(
        name=head[1], parameters=parameters, max_threads=most if threads else None,
        exact_threads=threads is not None and threads[1] == "reqntid",
        shared_bytes=layout(reader.variables.values(), "shared")[1], parameter_bytes=last.offset + last.size if last else 0,
        code=tuple(reader.code), labels=reader.labels, tables=reader.tables, variables=reader.variables,
    )  # fmt: skip


def _parameters(text: str) -> Iterator[Parameter]:
    place = 0
    for part in filter(str.strip, text.split(",")):
        kind = _PARAMETER.search(part)
        name = re.search(r"([\w$]+)\s*(?:\[(\d+)\])?\s*$", part)
        if kind is None or name is None:
            raise DeviceFault("opcode", f"cannot read the parameter '{part.strip()}'")
        size = int(kind[1][1:]) // 8
        align = re.search(r"(?<!global )\.align\s+(\d+)", part) if name[2] else None
        alignment = int(align[1]) if align else size
        size *= int(name[2] or 1)
        place = -(-place // alignment) * alignment
        yield Parameter(name[1], kind[1], place, size, alignment)
        place += size


@dataclass
class _EntryReader:
    """State of parsing an entry."""

    files: dict[int, str]
    functions: dict[str, _Function]
    code: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    scopes: list[dict[str, Register | str]] = field(default_factory=lambda: [{}])
    numbers: list[int] = field(default_factory=lambda: [0])  # of the scopes
    opened: int = 0  # scopes so far
    ends: list[str] = field(default_factory=list[str])  # where the calls that are read return to
    source: Location | None = None
    inlined: dict[Place, Place] = field(default_factory=dict[Place, Place])

    def read(self, body: str) -> None:
        """All statements of a body."""
        place = 0
        while found := _STATEMENT.match(body, place):
            place = found.end()
            if found["brace"] == "{":
                self.open(body, place)
            elif found["brace"] == "}":
                self.close()
            elif found["loc"]:
                self.locate(found["loc"])
            elif found["label"]:
                self.labels[self.label(found["label"])] = len(self.code)
            else:
                self.statement(" ".join(found["statement"].split()))
        if rest := body[place:].strip():
            raise DeviceFault("opcode", f"cannot read {rest[:60]!r}")

    def open(self, body: str, place: int) -> None:
        """A scope that begins at a place of the body: its labels are known before they are reached."""
        self.opened += 1
        self.numbers.append(self.opened)
        inside = body[place : body.find("}", place)]
        self.scopes.append({name: f"{name}@{self.opened}" for name in _LABELS.findall(inside)})

    def close(self) -> None:
        if len(self.scopes) < 2:
            raise DeviceFault("opcode", "unmatched closing brace", self.source)
        self.scopes.pop()
        self.numbers.pop()

    def label(self, name: str) -> str:
        found = next((scope[name] for scope in reversed(self.scopes) if name in scope), name)
        return found if isinstance(found, str) else name

    def register(self, name: str) -> Register | str | None:
        """The register of a name in the innermost scope that declares it."""
        for scope in reversed(self.scopes):
            if found := scope.get(name):
                return found
        return None

    def locate(self, text: str) -> None:
        """A `.loc`: of inlined code the place in the kernel that called for it."""
        found = _LOC.match(text)
        if found is None:
            return
        place: Place = (int(found[1]), int(found[2]), int(found[3]))
        if found[4]:
            self.inlined[place] = (int(found[4]), int(found[5]), int(found[6]))
        else:
            self.inlined.pop(place, None)
        seen = {place}
        while place in self.inlined and self.inlined[place] not in seen:
            place = self.inlined[place]
            seen.add(place)
        self.source = Location(self.files.get(place[0], ""), place[1], place[2])

    def statement(self, text: str) -> None:
        if text.startswith("."):
            self.directive(text)
        elif text.startswith("call") or _GUARDED_CALL.match(text):
            self.call(text)
        elif text:
            self.instruction(text)

    def directive(self, text: str) -> None:
        if found := _REGISTERS.match(text):
            self.declare(found[1], found[2])
        elif found := _VARIABLE.match(f"{text};"):
            self.variable(found)
        elif text.startswith(".param"):
            self.parameter(text)
        elif text.startswith(".branchtargets"):
            name = next(label for label, at in reversed(self.labels.items()) if at == len(self.code))
            self.tables[name] = tuple(self.label(part.strip()) for part in text.split(None, 1)[1].split(","))
        elif not text.startswith(".pragma"):
            self.instruction(text)

    def declare(self, kind: str, names: str) -> None:
        """`.reg .b32 %r<9>, %x`"""
        width = 0 if kind == "pred" else int(kind[1:]) // 8
        for name in map(str.strip, names.split(",")):
            many = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            if many and int(many[2]) > _MOST_REGISTERS:
                raise DeviceFault("opcode", f"{many[2]} registers are declared at once", self.source)
            for each in [f"{many[1]}{n}" for n in range(int(many[2]))] if many else [name]:
                unique = f"{each}@{self.numbers[-1]}" if self.numbers[-1] else each
                self.scopes[-1][each] = Register(unique, width)

    def variable(self, found: re.Match[str]) -> None:
        width = int(found["type"][1:]) // 8
        values = [part for part in (found["list"] or found["value"] or "").split(",") if part.strip()]
        count = int(found["count"] or 0) if found["array"] else 1
        initial = b"".join((int(v, 0) % (1 << 8 * width)).to_bytes(width, "little") for v in values)
        size = max(count * width, len(initial))
        self.variables[found["name"]] = Variable(
            found["name"],
            found["space"],
            size,
            int(found["align"] or width),
            initial.ljust(size, b"\0") if initial else b"",
        )

    def parameter(self, text: str) -> None:
        """`.param .b64 param0`: what is passed to a function, or comes back, is a register here; of `.b8 retval0[16]` each number is one."""
        found = re.fullmatch(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w\d+)\s+([\w$]+)(?:\[(\d+)\])?", text)
        if found is None:
            raise DeviceFault("opcode", f"only numbers are passed to functions, not {text!r}", self.source)
        self.declare(f"b{8 * int(found[3])}" if found[3] else found[1], found[2])

    def call(self, text: str) -> None:
        """Inline the code of a function."""
        guarded = re.match(r"@(!?)(%?[\w$]+)\s+(.*)$", text)
        found = _CALL.match(guarded[3] if guarded else text)
        function = self.functions.get(found[2]) if found else None
        if found is None or function is None or len(self.ends) >= _DEEPEST:
            raise DeviceFault(
                "opcode", f"the emulated GPU does not support the function called by {text!r}", self.source
            )
        given = [part.strip() for group in (found[1], found[3]) for part in (group or "").split(",") if part.strip()]
        names = [*function.results, *function.parameters]
        passed = [self.register(name) for name in given]
        if len(names) != len(given) or not all(isinstance(each, Register) for each in passed):
            raise DeviceFault("opcode", f"the arguments of {text!r} do not match the function", self.source)
        self.opened += 1
        end = f"return@{self.opened}"
        if guarded:
            self.jump(end, self.guard(guarded[2], not guarded[1], text))
        labels = {name: f"{name}@{self.opened}" for name in _LABELS.findall(function.body)}
        outside = self.scopes, self.numbers
        inside: dict[str, Register | str] = labels | {n: r for n, r in zip(names, passed, strict=True) if r}
        self.scopes, self.numbers = [inside], [self.opened]
        self.ends.append(end)
        self.read(function.body)
        self.ends.pop()
        self.scopes, self.numbers = outside
        self.labels[end] = len(self.code)

    def jump(self, label: str, guard: Register | Negated | None) -> None:
        self.code.append(Instruction("bra", ("uni",), (Symbol(label),), guard, f"bra {label}", self.source))

    def instruction(self, text: str) -> None:
        found = _INSTRUCTION.match(text)
        if found is None:
            raise DeviceFault("opcode", f"cannot read {text[:80]!r}", self.source)
        guard = self.guard(found[2], bool(found[1]), text) if found[2] else None
        opcode, *modifiers = found[3].split(".")
        operands = tuple(operand_of(part, self.register, text) for part in split_operands(found[4]))
        if opcode == "ret" and self.ends:
            self.jump(self.ends[-1], guard)
            return
        if opcode in ("ld", "st") and modifiers[:1] == ["param"]:
            opcode, modifiers, operands = _passed(opcode, modifiers, operands)
        self.code.append(Instruction(opcode, tuple(modifiers), operands, guard, text, self.source))

    def guard(self, name: str, negated: bool, text: str) -> Register | Negated:
        register = self.register(name)
        if not isinstance(register, Register):
            raise DeviceFault("opcode", f"'{name}' is not a register in {text!r}", self.source)
        return Negated(register) if negated else register


def _passed(
    opcode: str, modifiers: list[str], operands: tuple[Operand, ...]
) -> tuple[str, list[str], tuple[Operand, ...]]:
    """`ld.param`, `st.param` of what is passed to a function: a move between registers. Of an entry, `[%r1]` is at an address."""
    place = operands[1 if opcode == "ld" else 0]
    if not isinstance(place, Address) or not isinstance(place.base, Register) or len(modifiers) != 2:
        return opcode, modifiers, operands
    register = place.base
    if register.name.startswith("%"):
        return opcode, modifiers, operands
    if register.width > _WIDEST:
        register = Register(f"{register.name}+{place.offset}", int(modifiers[1][1:]) // 8)
    elif place.offset:
        return opcode, modifiers, operands
    return "mov", modifiers[1:], (operands[0], register) if opcode == "ld" else (register, operands[1])
