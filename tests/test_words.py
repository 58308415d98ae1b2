"""Plain words: docstrings, comments, messages and names use the terms of the field. Each test lists all offenders as
file:line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import FILES, lines_of, place, refuse

# Words that this project once used for "has a sharding", "is not a", "rejected alternatives" and "annotation".
# `#shard.wish` and the JSON key "rivals" are parts of formats and stay.
DENIED = re.compile(r"\b(?:lies|is no|are no)\b|(?<!\")\brivals\b|(?<!shard\.)\bwish(?:es)?\b")


def denied_words(path: Path) -> Iterator[str]:
    for line_number, line in enumerate(lines_of(path), start=1):
        yield from (f"{place(path, line_number)}: {word}" for word in DENIED.findall(line))


def test_no_file_has_denied_words() -> None:
    refuse([offender for path in FILES for offender in denied_words(path)])


def test_denied_words_are_found() -> None:
    assert DENIED.findall("how it lies; a wish; 'x' is no axis") == ["lies", "wish", "is no"]
    assert not DENIED.search('record["rivals"]')
    assert not DENIED.search("#shard.wish<@mesh>; this is not a wishlist; relies, believes")
