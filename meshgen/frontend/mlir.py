"""MLIR text as a program: from a string, a file or stdin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from meshgen.errors import Diagnostic, Location, ProgramError, UsageError
from meshgen.ir.graph import Module
from meshgen.ir.text import parse_text
from meshgen.mesh import Mesh


def read_mlir(source: str | Path, meshes: Sequence[Mesh] = ()) -> Module:
    """The module of MLIR text: `source` is the text itself, a path, or `-` for stdin.

    A string is a path unless it has a line break or a brace. `meshes` have sizes of mesh axes that the text leaves
    open. Raises UsageError (MG0002) where the file cannot
    be read, ProgramError where the text is refused (see `parse_text`).
    """
    if source == "-":
        return parse_text(_read("-", sys.stdin.read), "-", meshes)
    if isinstance(source, str) and ("\n" in source or "{" in source or not source.strip()):
        return parse_text(source, "<text>", meshes)
    path = Path(source)
    return parse_text(_read(str(path), lambda: path.read_text(encoding="utf-8")), str(path), meshes)


def _read(name: str, read: Callable[[], str]) -> str:
    """A text without the mark that some editors put first. Raises as `read_mlir`."""
    try:
        return read().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8; MLIR bytecode is not supported"
        hint = "print the module as text (mlir-opt, or as_text() in JAX)"
        raise ProgramError(Diagnostic("MG0101", message, Location(name, 0), hint=hint)) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        reason = getattr(error, "strerror", None) or error
        hint = "a program is a .mlir file, or pkg.mod:function"
        raise UsageError(Diagnostic("MG0002", f"{name}: {reason}", hint=hint)) from error
