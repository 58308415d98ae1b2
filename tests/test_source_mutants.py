"""`tests.source_mutants`: each mutant is a single change of the source, and a test that detects it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import source_mutants
from tests.source_mutants import Mutant, drawn, first_failure, killer, mutants
from tests.sources import PACKAGE, ROOT

SOURCE = '''"""Größe: -1 + 2."""
def shorter(x, most=8):
    if x < most and x:
        return "ü" + str(x)
    if not x:
        return None
    return max(x - 1, 1)
'''


def test_each_kind_of_mutant_is_yielded_once(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert {(mutant.line, mutant.before, mutant.after) for mutant in mutants(path)} == {
        (2, "8", "9"),
        (3, "if x < most and x:", "pass"),
        (3, "x < most and x", "x < most or x"),
        (3, "x < most", "x <= most"),
        (5, "if not x:", "pass"),
        (7, "max(x - 1, 1)", "min(x - 1, 1)"),
        (7, "x - 1", "x + 1"),
    }
    for mutant in mutants(path):
        compile(mutant.source, "mutant", "exec")
        assert '"ü"' in mutant.source or mutant.after == "pass"


def test_type_annotations_have_no_mutants(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "if TYPE_CHECKING:\n    A = 2 + 3\ndef f(x: 4 | 5 = 1) -> 6 | 7:\n    y: 8 | 9 = x + 1\n    z: 8 | 9\n"
    )
    assert [mutant.before for mutant in mutants(path)] == ["x + 1"]


def test_large_numbers_are_doubled_and_assertions_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("@cache(maxsize=256)\ndef f(x: int) -> int:\n    assert x < 9\n    return 16 if x else 4096\n")
    assert [(mutant.before, mutant.after) for mutant in mutants(path)][1:] == [("16", "17"), ("4096", "8192")]


def test_test_that_fails_without_the_mutant_does_not_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, test = tmp_path / "module.py", "tests/test_module.py"
    changed.write_text("1")

    def first_failure(tree: Path, tests: Sequence[str], without: Sequence[str], time_out: float) -> str:
        failing = [f"{test}::broken"] + [f"{test}::limit"] * (changed.read_text() == "2")
        failures = [name for name in failing if tests[0] in (test, name) and name not in without]
        return failures[0] if failures else ""

    monkeypatch.setattr(source_mutants, "first_failure", first_failure)
    for limit, failed in (("2", f"{test}::limit"), ("0", "")):
        mutant = Mutant(ROOT / "module.py", 1, "1", limit, limit)
        assert killer(mutant, tmp_path, [ROOT / test], 60) == failed
        assert changed.read_text() == "1"


def test_first_failure_returns_the_failing_test(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    path = tmp_path / "tests" / "test_module.py"
    path.write_text("def test_a(): pass\ndef test_b(): assert 1 == 2\n")
    assert first_failure(tmp_path, ["tests/test_module.py"], [], 60) == "tests/test_module.py::test_b"


def test_mutants_are_drawn_from_the_seed() -> None:
    paths = [PACKAGE / "notation.py", PACKAGE / "spec.py"]
    first, repeated, other = (drawn(paths, 5, seed) for seed in (1, 1, 2))
    assert first == repeated and first != other and len(first) == 5
