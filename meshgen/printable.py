"""Make untrusted text safe for a terminal by escaping control characters."""

from __future__ import annotations

import re

# Control characters except newline and tab, bidirectional text marks, and lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Escape the non-printable characters of a text, as in `\\x1b` and `\\ud800`."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: str, most: int) -> str:
    """Convert a text to a name of at most `most` characters for which `is_plain` is true."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")[:most]


def is_plain(text: str) -> bool:
    """Whether a name is a single line without characters that `printable` escapes."""
    return not _UNPRINTABLE.search(text) and "\n" not in text and "\t" not in text


def bytes_text(count: float) -> str:
    """Format a number of bytes in three digits, such as `131 kB`."""
    return scaled_text(count, "B", "kMG")


def scaled_text(count: float, unit: str, prefixes: str) -> str:
    """Format a number in three digits with the smallest prefix that makes it less than 1000, such as `34.4 GFLOP`."""
    prefix = ""
    for prefix in ("", *prefixes):
        if count < 1000 or prefix == prefixes[-1]:
            break
        count /= 1000
    return f"{count:.3g} {prefix}{unit}" if count < 1000 else f"{count:.0f} {prefix}{unit}"


def distinguishable_sizes(first: int, second: int) -> tuple[str, str]:
    """Format two different sizes for a message that compares them. They are rounded, unless the rounded texts would be
    equal.
    """
    texts = bytes_text(first), bytes_text(second)
    return texts if texts[0] != texts[1] else (f"{first:,} B", f"{second:,} B")


class Shown:
    """A mixin that makes notebooks show the text of an object in a fixed-width font."""

    def _repr_html_(self) -> str:
        from html import escape  # imported late: only notebooks need it

        return f"<code>{escape(str(self))}</code>"
