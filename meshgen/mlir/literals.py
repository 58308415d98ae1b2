"""Printing of MLIR literals: strings, names, numbers and lists.

In a string, non-ASCII characters are printed as the escaped bytes of their UTF-8 encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from xdsl.parser import AttrParser

_ESCAPES = {byte: f"\\{byte:02X}" for byte in (*range(0x20), 0x22, *range(0x7F, 0x100))} | {0x5C: "\\\\"}
_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def parse_text(parser: AttrParser) -> str:
    """Parse a string literal, whose escaped bytes are decoded as UTF-8."""
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
    """Return `text` as a string literal. Cached, because reasons and file names repeat on many lines."""
    return f'"{text.encode().decode("latin-1").translate(_ESCAPES)}"'


def bare_or_quoted(name: str) -> str:
    """Return the name unquoted if it is a valid identifier, else as a string literal."""
    return name if _BARE.fullmatch(name) else quoted(name)


def symbol(name: str) -> str:
    """Return the symbol reference `@name`."""
    return f"@{bare_or_quoted(name)}"


def array(values: Iterable[int], kind: str = "i64") -> str:
    """Return the text of an integer array with the element type `kind`, such as `array<i64: 1, 2>`."""
    text = ", ".join(map(str, values))
    return f"array<{kind}: {text}>" if text else f"array<{kind}>"


def flags(values: Iterable[int]) -> str:
    """Return the text of a boolean array, such as `array<i1: true, false>`."""
    text = ", ".join(map(boolean, values))
    return f"array<i1: {text}>" if text else "array<i1>"


def boolean(value: object) -> str:
    """Return `true` or `false`."""
    return "true" if value else "false"


def listed(texts: Iterable[str]) -> str:
    """Return the texts as a list `[a, b]`."""
    return f"[{', '.join(texts)}]"


def dictionary(entries: Mapping[str, str]) -> str:
    """Return the text of a dictionary, `{name = value, flag}`. An entry whose value is "" is printed as a flag."""
    return f"{{{', '.join(f'{name} = {value}' if value else name for name, value in entries.items())}}}"


def one_or_list(texts: Sequence[str]) -> str:
    """Return a single text as it is, and several texts as `(a, b)`."""
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def function_type(operands: Sequence[str], results: Sequence[str]) -> str:
    """Return a function type such as `(a, b) -> c` or `(a) -> (b, c)`."""
    return f"({', '.join(operands)}) -> {one_or_list(results)}"
