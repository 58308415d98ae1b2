"""Diagnostics with a code and a location, and the errors that carry them.

Every kind of error has a code (`MG0204`). `CODES` has a title for each code, and `docs/diagnostics.md` explains them.
An error carries all diagnostics of one check. Its class determines the exit code of the command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePath

from meshgen.printable import printable

# chosen: longest word and longest text in characters; the middle of longer ones is elided, so that messages stay
# readable
_LONG_WORD, _LONG_TEXT = 400, 8000
_LONG = re.compile(rf"\S{{{_LONG_WORD + 1},}}")
_PACKAGE = str(Path(__file__).parent)

CODES: dict[str, str] = {
    # MG00xx: how meshgen was called.   MG01xx: reading a program.   MG02xx: mesh and shardings.
    # MG03xx: code generation.   MG04xx: schedule.   MG05xx: the module file.   MG06xx: running.
    "MG0001": "bad option or argument",
    "MG0002": "input file is missing or cannot be read",
    "MG0003": "output cannot be written",
    "MG0004": "built kernels cannot be cached (a warning)",
    "MG0005": "not enough memory",
    "MG0006": "the program is nested too deeply",
    "MG0007": "not a table of measured tiles",
    "MG0101": "program cannot be parsed",
    "MG0102": "the program is empty",
    "MG0103": "operation is not supported",
    "MG0104": "operation is malformed",
    "MG0105": "the Python function raised an exception while it was traced",
    "MG0108": "the program is too large",
    "MG0109": "reduction of a value that is not partial (a warning)",
    "MG0110": "donation of an argument is malformed",
    "MG0111": "memory of a donated argument is not reused (a warning)",
    "MG0112": "the next value of a donated argument is ambiguous (a warning; sessions refuse)",
    "MG0201": "mesh is malformed",
    "MG0202": "unknown mesh axis",
    "MG0203": "mesh axis is used twice",
    "MG0204": "sharding does not fit the tensor",
    "MG0205": "required annotations conflict",
    "MG0206": "dim cannot be split as annotated",
    "MG0207": "no way to reshard",
    "MG0208": "size of a tensor dim is unknown",
    "MG0209": "value cannot be placed on a mesh",
    "MG0210": "value is gathered although no annotation requires it",
    "MG0211": "mesh has other sizes than the program's mesh (a warning)",
    "MG0301": "kernel cannot be generated",
    "MG0302": "kernel does not compile",
    "MG0303": "kernel or step exceeds the resources of the device",
    "MG0401": "schedule can deadlock",
    "MG0402": "schedule has a race",
    "MG0403": "all branches are computed, because they contain collectives (a warning)",
    "MG0404": "several devices compute the same work (a warning)",
    "MG0501": "not a meshgen module",
    "MG0502": "module is damaged or was modified",
    "MG0503": "module has a newer or older format",
    "MG0504": "program exceeds the limits of a module",
    "MG0505": "module has no launch table",
    "MG0506": "module is not signed, or not by this key",
    "MG0601": "argument does not fit the signature",
    "MG0602": "device or dependency is missing",
    "MG0603": "not enough devices",
    "MG0604": "run-time failure",
    "MG0605": "results differ from the expected results",
    "MG0606": "not enough memory to check the program",
    "MG0607": "array operand widens narrow floats (a warning)",
    "MG0608": "kernel faults on the emulated GPU",
    "MG0609": "rank is lost",
    "MG0610": "ranks run different modules",
    "MG0611": "launcher's variables are incomplete or contradict each other",
    "MG0612": "candidate of a kernel computes other results (a warning)",
}


@dataclass(frozen=True)
class Location:
    """A location in the user's program: a file (`-` is stdin), and a line and column that count from 1.

    `scope` is the user's name for the computation there (`layer_3/attn`). One line may have several scopes.
    """

    file: str
    line: int
    column: int = 0
    scope: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@lru_cache(maxsize=1 << 12)
def location_text(loc: Location | None) -> str:
    """Format a location as reports store it, such as `model.py:31 in layer_3/attn`.

    Only the base name of the file is included, so that the text does not depend on the directory.
    """
    if loc is None:
        return ""
    return str(replace(loc, file=file_name(loc.file))) + (f" in {loc.scope}" if loc.scope else "")


@lru_cache(maxsize=1 << 10)
def file_name(path: str) -> str:
    """Return the base name of a file. Bytes that are not UTF-8 are escaped, so that the name can be printed."""
    return printable(PurePath(path).name)


def line_of_location(place: str) -> int | None:
    """Return the line in a text of `location_text`, or None if it has no line."""
    match = re.search(r":(\d+)(?: in .*)?$", place)
    return int(match[1]) if match else None


def location_in_program(error: BaseException) -> Location | None:
    """Return the location in the user's program that raised the error, or that called the library function which raised
    it.

    Returns None if meshgen itself raised it.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Location(error.filename, error.lineno, error.offset or 0)
    import sysconfig  # imported late: rarely needed
    import traceback

    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), "<frozen")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(_PACKAGE):
            return None
        if not frame.filename.startswith(libraries):
            return Location(frame.filename, frame.lineno or 0)
    return None


def system_reason(error: BaseException) -> str:
    """Return why a file cannot be accessed: the system's reason without the path, or the exception's text."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_interrupt(error: BaseException) -> bool:
    """Whether the user interrupted meshgen. False for a KeyboardInterrupt that the program itself raised."""
    import dis

    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    is_raised = frame is not None and frame.tb_frame.f_code.co_code[frame.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return isinstance(error, KeyboardInterrupt) and not is_raised


def bracketed(place: str) -> str:
    """Format a location as a suffix such as ` (mlp.mlir:3)`, or "" if it is empty."""
    return f" ({place})" if place else ""


def listed(names: Sequence[str], most: int = 10) -> str:
    """Join the first `most` names by commas, as in `a, b, and 9,998 more`. Returns `none` for no names."""
    shown = ", ".join(names[:most]) or "none"
    return shown if len(names) <= most else f"{shown}, and {len(names) - most:,} more"


def about(number: int) -> str:
    """Format an integer of any size approximately, as `1.5e+06` or `2^60`."""
    return f"{number:.3g}" if number < 10**15 else f"2^{number.bit_length() - 1}"


def shortened(text: str) -> str:
    """Shorten a text for display by eliding the middle of very long words and of a very long text."""
    if len(text) <= _LONG_WORD:
        return text
    return _elided(_LONG.sub(lambda word: _elided(word[0], _LONG_WORD), text), _LONG_TEXT)


def _elided(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}[... {len(text) - 2 * half:,} characters ...]{text[-half:]}"


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning: code, message with the numbers, location, notes at other locations, and hint."""

    code: str
    message: str
    loc: Location | None = None
    notes: tuple[tuple[str, Location | None], ...] = ()
    hint: str = ""

    def __post_init__(self) -> None:
        assert self.code in CODES, f"{self.code} is not in CODES"
        object.__setattr__(self, "message", shortened(self.message))
        object.__setattr__(self, "hint", shortened(self.hint))
        object.__setattr__(self, "notes", tuple((shortened(text), loc) for text, loc in self.notes))

    def __str__(self) -> str:
        return self.text("warning" if "(a warning" in CODES[self.code] else "error")

    def text(self, severity: str) -> str:
        """Return the text for display, with the source line above a caret. Control characters are escaped."""
        where = f"{self.loc}: " if self.loc else ""
        lines = [f"{where}{severity} {self.code}: {self.message}", *_excerpt(self.loc)]
        for text, loc in self.notes:
            lines += [f"  note: {text}" + bracketed(str(loc or "")), *_excerpt(loc)]
        if self.hint:
            lines.append(f"  help: {self.hint}")
        return printable("\n".join(lines))


MAX_EXCERPT_FILE_BYTES = 1 << 30  # chosen: bytes of the largest file from which messages quote a line
MOST_PLACES = 4  # chosen: number of further locations listed per diagnostic


def grouped(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merge diagnostics with equal code and message. The first location is kept, and the next few locations become
    notes.
    """
    groups: dict[tuple[str, str], list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        groups.setdefault((diagnostic.code, diagnostic.message), []).append(diagnostic)
    return [
        replace(
            first,
            notes=(
                *first.notes,
                *further_locations([diagnostic.loc for diagnostic in repeated if diagnostic.loc != first.loc]),
            ),
        )
        for first, *repeated in groups.values()
    ]


def further_locations(locations: Iterable[Location | None]) -> Sequence[tuple[str, Location | None]]:
    """Return notes for further locations of a diagnostic: one for each of the first few, and one with the number of the
    rest.
    """
    places = [location for location in dict.fromkeys(locations) if location]
    notes: list[tuple[str, Location | None]] = [("also here", location) for location in places[:MOST_PLACES]]
    omitted_count = len(places) - MOST_PLACES
    return [*notes, (f"and at {omitted_count} more places", None)] if omitted_count > 0 else notes


def _excerpt(loc: Location | None) -> list[str]:
    """Return the source line at `loc` with a caret below. Returns nothing for pipes and devices, which cannot be read
    again.
    """
    if loc is None or not loc.line:
        return []
    try:
        if not Path(loc.file).is_file() or os.path.getsize(loc.file) > MAX_EXCERPT_FILE_BYTES:
            return []
        with open(loc.file, encoding="utf-8") as file:
            line = next(islice(file, loc.line - 1, None)).rstrip("\n")
    except (OSError, ValueError, StopIteration):
        return []
    column = loc.column - 1 if loc.column else len(line) - len(line.lstrip())
    first = max(0, column - 60)  # MLIR lines have thousands of characters, so only a window around the caret is shown
    return [f"  | {line[first : first + 140]}", f"  | {' ' * (column - first)}^"]


class MeshgenError(Exception):
    """An error that the user can fix. `exit_code` is the exit code of the command line."""

    exit_code = 1

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(d.text("error") for d in diagnostics))
        self.diagnostics: Sequence[Diagnostic] = diagnostics


class UsageError(MeshgenError):
    """meshgen was called with a bad option, path or argument."""

    exit_code = 2


class ProgramError(MeshgenError):
    """The program is rejected: it does not parse, is malformed, or uses an unsupported feature."""


class EntryError(ProgramError):
    """The program has several public functions, `names`, and no entry function was selected."""

    names: Sequence[str] = ()


class ShardingError(ProgramError):
    """A mesh, sharding or annotation is malformed or cannot be followed."""


class CodegenError(MeshgenError):
    """A kernel cannot be generated, built or loaded on the target."""


class ScheduleError(MeshgenError):
    """A schedule has a race or can deadlock."""


class ModuleError(MeshgenError):
    """A `.mgx` file is damaged, truncated, forged, or newer than this meshgen."""


class ArgumentError(MeshgenError):
    """An argument of a run does not match the module's signature."""


class NumbersDiffer(MeshgenError):
    """Results differ from the expected ones by more than the tolerance."""

    exit_code = 3


class RuntimeFailure(MeshgenError):
    """Something failed while a module ran."""

    exit_code = 4


class MissingError(MeshgenError):
    """A dependency or device that the command needs is missing."""

    exit_code = 5
