"""Changelog fragments, commit subjects, and the checks that precede a release."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.sources import ROOT
from tests.test_site import beside_pages

KINDS = [
    kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
]
NAME = re.compile(rf"(\d+|\+[a-z0-9][a-z0-9-]*)\.({'|'.join(KINDS)})\.md")
LONGEST = 500  # chosen: characters of a fragment, for one or two sentences


def fragment_fault(name: str, text: str) -> str:
    """Return what is wrong with a changelog fragment, or "" if it is valid. `changelog.d/README.md` describes the form."""
    if not NAME.fullmatch(name):
        return f"{name}: expected NUMBER.KIND.md or +WORDS.KIND.md with a KIND of {', '.join(KINDS)}"
    if not text.strip().endswith(".") or (not text[:1].isupper() and text[:1] != "`"):
        return f"{name}: expected sentences"
    return f"{name}: {len(text)} characters; the limit is {LONGEST}" if len(text) > LONGEST else ""


def test_changelog_fragments_have_the_form() -> None:
    paths = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")
    assert [fault for path in paths if (fault := fragment_fault(path.name, path.read_text()))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("fix.md", "A."), ("12.fix.md", "A."), ("+A.fixed.md", "A."), ("12.fixed.md", "no sentence"), ("12.fixed.md", "A" * LONGEST + ".")],
)  # fmt: skip
def test_malformed_changelog_fragment_is_refused(name: str, text: str) -> None:
    assert fragment_fault(name, text)


def test_commit_subject_has_the_form() -> None:
    fault = beside_pages("subjects", ".ci").fault
    for subject in (
        "module: read the previous format, keep a module of each kind",
        "codegen/memory: alias `x`",
        "Merge branch 'a'",
        "docs: address",
    ):
        assert fault(subject) == "", subject
    for subject in (
        "Fix a bug",
        "module: Read",
        "module: reads more",
        "module: reading",
        "module: added x",
        "module: end.",
        "a: " + "b" * 70,
    ):
        assert fault(subject), subject


def repository(folder: Path, title: str) -> Path:
    (folder / "changelog.d").mkdir()
    (folder / "changelog.d" / "README.md").write_text("# Fragments\n")
    (folder / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (folder / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {title}\n\n### Fixed\n\n- One.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n"
    )
    return folder


def test_release_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    release = beside_pages("release", ".ci")
    root = repository(tmp_path, "0.2.0 (2026-02-03)")
    assert release.faults("v0.2.0", root) == []
    assert release.notes((root / "CHANGELOG.md").read_text(), "0.2.0") == "### Fixed\n\n- One.\n"


def test_release_without_date_or_with_fragments_is_refused(tmp_path: Path) -> None:
    release = beside_pages("release", ".ci")
    root = repository(tmp_path, "0.2.0 (unreleased)")
    (root / "changelog.d" / "1.fixed.md").write_text("One.\n")
    faults = release.faults("v0.3.0", root)
    expected = ("'v0.3.0' is not that of version 0.2.0", "1.fixed.md", "section '0.2.0 (unreleased)'", "has no date")
    assert [text in fault for text, fault in zip(expected, faults, strict=True)] == [True] * 4


def test_changelog_has_the_marker_for_new_sections() -> None:
    title, _, rest = (ROOT / "CHANGELOG.md").read_text().partition("<!-- towncrier release notes start -->\n")
    assert title.strip() == "# Changelog" and rest.lstrip().startswith("## ")
