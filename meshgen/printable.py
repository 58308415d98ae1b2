"""Text from files of others, as a terminal may show it: what it would obey instead of showing is escaped."""

from __future__ import annotations

import re

# Control characters but newline and tab, marks that turn the direction of text, and halves of surrogate pairs.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with escapes (`\\x1b`, `\\ud800`) for non-printable characters."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain(text: str, most: int) -> str:
    """A name of which `is_plain` holds, cut to `most` characters."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")[:most]


def is_plain(text: str) -> bool:
    """Whether a name is one line of what `printable` leaves as it is."""
    return not _OBEYED.search(text) and "\n" not in text and "\t" not in text


def bytes_text(count: float) -> str:
    """A size with three digits: `131 kB`."""
    return scaled_text(count, "B", "kMG")


def scaled_text(count: float, unit: str, prefixes: str) -> str:
    """A number with three digits and the first of the prefixes with which it is below 1000, else the last: `34.4 GFLOP`."""
    prefix = ""
    for prefix in ("", *prefixes):
        if count < 1000 or prefix == prefixes[-1]:
            break
        count /= 1000
    return f"{count:.3g} {prefix}{unit}" if count < 1000 else f"{count:.0f} {prefix}{unit}"


def bytes_apart(first: int, second: int) -> tuple[str, str]:
    """Return two sizes that a message compares: rounded, or in bytes where they would look equal."""
    texts = bytes_text(first), bytes_text(second)
    return texts if texts[0] != texts[1] else (f"{first:,} B", f"{second:,} B")


class Shown:
    """A mixin that makes notebooks show the text of an object, in a fixed-width font."""

    def _repr_html_(self) -> str:
        from html import escape  # only notebooks need it

        return f"<code>{escape(str(self))}</code>"
