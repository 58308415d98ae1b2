"""Names that are spelled nearly alike, for hints."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_names(name: str, known: Iterable[str], most: int = 3, alike: float = 0.6) -> list[str]:
    """The known names, at most `most`, that have the share `alike` of their letters in common with a name; the nearest first."""
    from difflib import get_close_matches  # only a wrong name needs it

    return get_close_matches(name, list(known), most, alike)
