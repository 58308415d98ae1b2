"""Read MLIR text from a string, a file or stdin."""

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

# Bytes of the longest text. Chosen: this many bytes of operations would take hours to parse. Most bytes of large
# programs are constants.
MAX_TEXT = 1 << 29
_PIECE = 1 << 20  # Bytes per read of a stream.


def read_mlir(source: str | Path, meshes: Sequence[Mesh] = (), entry: str = "") -> Module:
    """Return the module of MLIR text.

    Arguments that JAX printed with their names, as `%arg0: ... loc("params['w1']")`, get these names.

    Args:
        source: the text, a path, or `-` for stdin. A string with a line break or a brace is text, any other a path.
        meshes: the sizes of mesh axes that the text leaves open.
        entry: the function to import.

    Raises:
        UsageError: MG0002, the file cannot be read.
        ProgramError: the text is invalid or unsupported (see `parse_text`).
    """
    if source == "-":
        text = _read("-", getattr(sys.stdin, "buffer", sys.stdin))
        return parse_text(text, "-", meshes, entry, called=canonical)
    if isinstance(source, str) and ("\n" in source or "{" in source or not source.strip()):
        return parse_text(source, "<text>", meshes, entry, called=canonical)
    path = str(source)
    return parse_text(_read(path), path, meshes, entry, called=canonical)


def read_generated(text: str, meshes: Sequence[Mesh] = ()) -> Module:
    """Return the module of StableHLO text that JAX printed.

    Source locations come from the text; tensor types are global.

    JAX omits the manual computation of a `shard_map` if all manual axes have size 1. The collectives of its body then
    have groups of one device.

    Args:
        meshes: the mesh that the shardings refer to if the text declares none.
    """
    return parse_text(text, "<text>", meshes, is_written=False, called=canonical, is_global=True)


def _read(name: str, stream: IO[Any] | None = None) -> str:
    """Return the text of a stream or a file, without a byte-order mark. Raises the same errors as `read_mlir`."""
    try:
        if stream is not None:
            return _stream_text(name, stream)
        with open(name, "rb") as file:
            return _stream_text(name, file)
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8; MLIR bytecode is not supported"
        hint = "print the module as text (mlir-opt, or as_text() in JAX)"
        raise ProgramError(Diagnostic("MG0101", message, Location(name, 0), hint=hint)) from error
    except (OSError, ValueError) as error:  # ValueError: a path that contains a null byte
        hint = "a program is a .mlir file, or pkg.mod:function"
        raise UsageError(Diagnostic("MG0002", f"{name}: {system_reason(error)}", hint=hint)) from error


def _stream_text(name: str, stream: IO[Any]) -> str:
    """Return the content of a byte or character stream, with LF line ends.

    Raises UsageError beyond `MAX_TEXT`, because devices and pipes may never end.
    """
    chunks: list[Any] = []
    read = 0
    while chunk := stream.read(_PIECE):
        chunks.append(chunk)
        read += len(chunk)
        if read > MAX_TEXT:
            hint = "give large constants as arguments, or as weights of the module"
            raise UsageError(Diagnostic("MG0002", f"{name}: a program may have {MAX_TEXT:,} bytes at most", hint=hint))
    text = "".join(chunks) if chunks and isinstance(chunks[0], str) else b"".join(chunks).decode()
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
