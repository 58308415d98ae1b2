"""Limits on the cost of reading an untrusted file. Readers check a limit before they compute, expand or allocate.

integers      64 bits after each operation of a formula
operations    of a program, counted before its calls, functions and loops are expanded
memory        free memory of this machine, before bytes are decompressed or arrays allocated
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from meshgen.errors import Diagnostic, Location, ProgramError, about
from meshgen.host_memory import free_bytes
from meshgen.printable import distinguishable_sizes

MAX_INTEGER_BITS = 63  # bits of an integer, without the sign bit
MAX_OPERATIONS = 200_000  # chosen: a program of this size takes gigabytes and minutes to compile


def bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an arithmetic function so that its integer result has at most 64 bits.

    The wrapper raises ProgramError MG0108 for a larger result, and TypeError for an operand that is a string or
    sequence. Integer operands must have at most 64 bits.
    """

    def checked(*operands: Any) -> Any:
        if any(isinstance(operand, str | bytes | list | tuple) for operand in operands):
            raise TypeError("expected numbers")
        result = function(*operands)
        if isinstance(result, int) and result.bit_length() > MAX_INTEGER_BITS:
            _refuse_integer(f"2^{result.bit_length() - 1}")
        return result

    return checked


@bounded
def power(base: Any, exponent: Any) -> Any:
    """Return `base ** exponent`.

    Raises:
        ProgramError: MG0108, before the computation, if the integer result would exceed 64 bits.
    """
    if isinstance(base, int) and isinstance(exponent, int):
        least_bits = (abs(base).bit_length() - 1) * exponent
        if least_bits > MAX_INTEGER_BITS:
            _refuse_integer(f"{base}^{exponent}")
    return base**exponent


def _refuse_integer(value: str) -> NoReturn:
    hint = f"integers have at most {MAX_INTEGER_BITS + 1} bits"
    raise ProgramError(Diagnostic("MG0108", f"an integer has the magnitude {value} or more", hint=hint))


def require_operations(count: int, what: str, loc: Location | None = None, *, hint: str = "") -> None:
    """Check that `count` is at most `MAX_OPERATIONS`. `what` names the counted program part in the error.

    Raises:
        ProgramError: MG0108, as in "the program has 2^39 operations".
    """
    if count > MAX_OPERATIONS:
        limit = f"the limit is {MAX_OPERATIONS:,}"
        text = f"{what} has {about(count)} operations"
        raise ProgramError(Diagnostic("MG0108", text, loc, hint=f"{limit}; {hint}" if hint else limit))


def memory_fault(needed_bytes: int, what: str) -> str:
    """Return an error text if `needed_bytes` exceeds the free memory, or "" if it does not or the free memory is
    unknown.

    Trying to allocate does not replace this check: systems overcommit memory, and kill the process when it uses the memory.
    """
    free = free_bytes()
    if free is None or needed_bytes <= free:
        return ""
    needed, available = distinguishable_sizes(needed_bytes, free)
    return f"{what} takes {needed} of memory, but {available} are free"


def require_memory(needed_bytes: int, what: str, loc: Location | None = None) -> None:
    """Check that `needed_bytes` are free. `what` names in the error what needs the memory.

    Raises:
        ProgramError: MG0108 if the memory is not free.
    """
    if fault := memory_fault(needed_bytes, what):
        raise ProgramError(Diagnostic("MG0108", fault, loc))


def regular_size(path: Path) -> int:
    """Return the size of a regular file in bytes.

    Raises:
        OSError: the file cannot be accessed.
        ValueError: it is a device or pipe, from which reading may never end.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(os.strerror(errno.EISDIR) if stat.S_ISDIR(status.st_mode) else "it is not a regular file")
    return status.st_size


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a regular file, or has more than `most_bytes` bytes.
    """
    size = regular_size(path)
    if size > most_bytes:
        raise ValueError(f"it has more than {most_bytes:,} bytes")
    if fault := memory_fault(size, "its content"):
        raise ValueError(fault)
    with path.open("rb") as file:
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError("it grows while it is read")
    return content
