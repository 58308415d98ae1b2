"""MLIR text as a program: from a string, a file or stdin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from meshgen.calls.trees import canonical
from meshgen.errors import Diagnostic, Location, ProgramError, UsageError, system_reason
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.mlir.text import parse_text

MAX_TEXT = 1 << 29  # bytes: operations would take hours to read; large programs are large by their constants
_PIECE = 1 << 20  # bytes that are read at once


def read_mlir(source: str | Path, meshes: Sequence[Mesh] = (), entry: str = "") -> Module:
    """The module of MLIR text: `source` is the text itself, a path, or `-` for stdin.

    A string is a path unless it has a line break or a brace. `meshes` have sizes of mesh axes that the text leaves
    open, `entry` names the function to take. Arguments that JAX printed with their names, as
    `%arg0: ... loc("params['w1']")`, have these. Raises UsageError (MG0002) where the file cannot be read, ProgramError
    where the text is refused (see `parse_text`).
    """
    if source == "-":
        text = _read("-", getattr(sys.stdin, "buffer", sys.stdin))
        return parse_text(text, "-", meshes, entry, called=canonical)
    if isinstance(source, str) and ("\n" in source or "{" in source or not source.strip()):
        return parse_text(source, "<text>", meshes, entry, called=canonical)
    path = str(source)
    return parse_text(_read(path), path, meshes, entry, called=canonical)


def read_generated(text: str, meshes: Sequence[Mesh] = ()) -> Module:
    """The module of a text that JAX printed: its locations are those that it names, and its arrays are whole ones.

    `meshes` has the mesh that shardings are over where the text declares none.

    JAX writes no manual computation where all manual axes have size 1; the collectives in it then have groups of one device.
    """
    return parse_text(text, "<text>", meshes, is_written=False, called=canonical, is_global=True)


def _read(name: str, stream: IO[Any] | None = None) -> str:
    """The text of a stream or a file, without byte-order mark. Raises as `read_mlir`."""
    try:
        if stream is not None:
            return _stream_text(name, stream)
        with open(name, "rb") as file:
            return _stream_text(name, file)
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8; MLIR bytecode is not supported"
        hint = "print the module as text (mlir-opt, or as_text() in JAX)"
        raise ProgramError(Diagnostic("MG0101", message, Location(name, 0), hint=hint)) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        hint = "a program is a .mlir file, or pkg.mod:function"
        raise UsageError(Diagnostic("MG0002", f"{name}: {system_reason(error)}", hint=hint)) from error


def _stream_text(name: str, stream: IO[Any]) -> str:
    """The content of a stream of bytes or characters, with line feeds, up to the limit: devices and pipes may never end."""
    parts: list[Any] = []
    read = 0
    while part := stream.read(_PIECE):
        parts.append(part)
        read += len(part)
        if read > MAX_TEXT:
            hint = "give large constants as arguments, or as weights of the module"
            raise UsageError(Diagnostic("MG0002", f"{name}: a program may have {MAX_TEXT:,} bytes at most", hint=hint))
    text = "".join(parts) if parts and isinstance(parts[0], str) else b"".join(parts).decode()
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
