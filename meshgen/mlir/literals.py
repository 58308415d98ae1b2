"""Literals of MLIR text: strings, names, numbers and lists as they are printed.

Strings escape what is not ASCII, and are read back as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from xdsl.parser import AttrParser

_ESCAPES = {byte: f"\\{byte:02X}" for byte in (*range(0x20), 0x22, *range(0x7F, 0x100))} | {0x5C: "\\\\"}
_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def parse_text(parser: AttrParser) -> str:
    """A string literal, with the UTF-8 of what is escaped in it."""
    text = parser.parse_optional_str_literal()
    if text is not None:
        return text
    content = parser.expect(parser.parse_optional_bytes_literal, "expected a string literal")
    try:
        return content.decode()
    except UnicodeDecodeError:
        parser.raise_error("the string literal is not UTF-8")


@lru_cache(1 << 12)
def quoted(text: str) -> str:
    """A string literal; reasons and names of files are the same on many lines."""
    return f'"{text.encode().decode("latin-1").translate(_ESCAPES)}"'


def bare_or_quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def symbol(name: str) -> str:
    """`@name`"""
    return f"@{bare_or_quoted(name)}"


def array(values: Iterable[int], kind: str = "i64") -> str:
    """`array<i64: 1, 2>`"""
    text = ", ".join(map(str, values))
    return f"array<{kind}: {text}>" if text else f"array<{kind}>"


def flags(values: Iterable[int]) -> str:
    """`array<i1: true, false>`"""
    text = ", ".join(map(boolean, values))
    return f"array<i1: {text}>" if text else "array<i1>"


def boolean(value: object) -> str:
    return "true" if value else "false"


def listed(texts: Iterable[str]) -> str:
    """`[a, b]`"""
    return f"[{', '.join(texts)}]"


def dictionary(entries: Mapping[str, str]) -> str:
    """`{name = value, flag}`; the value of a flag is empty."""
    return f"{{{', '.join(f'{name} = {value}' if value else name for name, value in entries.items())}}}"


def one_or_list(texts: Sequence[str]) -> str:
    """`a`, or `(a, b)` of any other number."""
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def function_type(operands: Sequence[str], results: Sequence[str]) -> str:
    """`(a, b) -> c`, `(a) -> (b, c)`"""
    return f"({', '.join(operands)}) -> {one_or_list(results)}"
