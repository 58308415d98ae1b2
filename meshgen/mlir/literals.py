"""String literals as they are printed: xDSL escapes what is not ASCII, and reads that back as bytes."""

from __future__ import annotations

from xdsl.parser import AttrParser


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
