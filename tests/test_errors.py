"""Diagnostics: grouping, locations and texts."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from meshgen import errors
from meshgen.errors import Diagnostic, Location, UsageError, grouped
from meshgen.printable import distinguishable_sizes


def test_equal_messages_are_grouped_with_other_locations_as_notes() -> None:
    def fault(message: str, line: int) -> Diagnostic:
        return Diagnostic("MG0301", message, Location("a.mlir", line))

    first, other = grouped(
        [fault("no sort", 3), fault("no fft", 4), *(fault("no sort", line) for line in range(5, 12))]
    )
    assert (str(first.loc), str(other.loc), other.notes) == ("a.mlir:3", "a.mlir:4", ())
    assert [str(location or "") for _, location in first.notes] == ["a.mlir:5", "a.mlir:6", "a.mlir:7", "a.mlir:8", ""]
    assert first.notes[-1][0] == "and at 3 more places"


def test_grouped_diagnostic_names_each_location_once() -> None:
    """Several kernels, such as those of an unrolled loop, come from one source line."""
    location = Location("a.mlir", 3)
    (only,) = grouped([Diagnostic("MG0301", "no sort", location)] * 3 + [Diagnostic("MG0301", "no sort")])
    assert [note for _, note in only.notes] == []


def test_text_of_warning_starts_with_warning() -> None:
    warning = Diagnostic("MG0404", "work is repeated")
    assert str(warning) == "warning MG0404: work is repeated"
    assert str(Diagnostic("MG0001", "no")) == "error MG0001: no"
    assert str(UsageError(warning)) == "error MG0404: work is repeated"


def test_compared_sizes_are_rounded_only_if_they_still_differ() -> None:
    assert distinguishable_sizes(622592, 232448) == ("623 kB", "232 kB")
    assert distinguishable_sizes(622592, 622591) == ("622,592 B", "622,591 B")


def test_unknown_keyword_of_public_function_is_refused_with_suggestion() -> None:
    with pytest.raises(
        UsageError, match=r"(?s)test_errors\.py:\d+: error MG0001: compile has no argument 'in_spec'.*'in_specs'"
    ):
        mg.compile(lambda x: x, {"a": 2}, args=["f32[4]"], in_spec={"x": mg.P("a")})  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"(?s)load has no argument 'meshes'.*did you mean 'mesh'"):
        mg.load("nowhere.mgx", meshes={"a": 2})  # type: ignore[call-arg]


def test_lines_of_large_files_are_not_quoted_in_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.mlir"
    path.write_text("the line\n")
    fault = Diagnostic("MG0101", "malformed", Location(str(path), 1))
    assert "the line" in str(UsageError(fault))
    monkeypatch.setattr(errors, "MAX_EXCERPT_FILE_BYTES", 8)
    assert "the line" not in str(UsageError(fault))
