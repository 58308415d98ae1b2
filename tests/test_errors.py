"""Diagnostics: what is said once, and where."""

from __future__ import annotations

from meshgen.errors import Diagnostic, Location, grouped


def test_equal_messages_are_one_with_the_other_places_as_notes() -> None:
    def fault(message: str, line: int) -> Diagnostic:
        return Diagnostic("MG0301", message, Location("a.mlir", line))

    first, other = grouped(
        [fault("no sort", 3), fault("no fft", 4), *(fault("no sort", line) for line in range(5, 12))]
    )
    assert (str(first.loc), str(other.loc), other.notes) == ("a.mlir:3", "a.mlir:4", ())
    assert [str(place or "") for _, place in first.notes] == ["a.mlir:5", "a.mlir:6", "a.mlir:7", "a.mlir:8", ""]
    assert first.notes[-1][0] == "and at 3 more places"


def test_a_place_is_told_once() -> None:
    """Kernels of one line, such as those of a loop that is written out, are one place."""
    place = Location("a.mlir", 3)
    (only,) = grouped([Diagnostic("MG0301", "no sort", place)] * 3 + [Diagnostic("MG0301", "no sort")])
    assert [note for _, note in only.notes] == []
