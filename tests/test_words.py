"""Plain words: docstrings, comments, messages and names use the field's terms. A test per rule, which lists all offenders as file:line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import FILES, PACKAGE, lines_of, place, refuse

# Private English for "has sharding", "annotation", "is not a", "rejected alternative". `#shard.wish` and the JSON key "rivals" are formats.
DENIED = re.compile(r"\b(?:lies|is no|are no)\b|(?<!\")\brivals\b|(?<!shard\.)\bwish(?:es)?\b")
# Folders and files of `meshgen` that still have such words.
UNCLEAN = {"ops", "sharding"}


def part_of(path: Path) -> str:
    """The folder of `meshgen` that a file is in; the file itself if it is in none."""
    return path.relative_to(PACKAGE).parts[0]


def denied_words(path: Path) -> Iterator[str]:
    for number, line in enumerate(lines_of(path), start=1):
        yield from (f"{place(path, number)}: {found}" for found in DENIED.findall(line))


def test_clean_packages_stay_clean() -> None:
    refuse([offender for path in FILES if part_of(path) not in UNCLEAN for offender in denied_words(path)])


def test_packages_with_denied_words_are_listed_only_while_they_have_some() -> None:
    found = {part_of(path) for path in FILES if any(denied_words(path))}
    refuse([f"{name} is clean: take it off the list" for name in sorted(UNCLEAN - found)])


def test_denied_words_are_found() -> None:
    assert DENIED.findall("how it lies; a wish; 'x' is no axis") == ["lies", "wish", "is no"]
    assert not DENIED.search("#shard.wish<@mesh>; this is not a wishlist; relies, believes")
