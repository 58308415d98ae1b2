"""Mutants of the source are one change each, and only where a test could see it."""

from __future__ import annotations

from pathlib import Path

from tests.source_mutants import drawn, mutants
from tests.sources import PACKAGE

SOURCE = '''"""Größe: -1 + 2."""
def shorter(x, most=8):
    if x < most and x:
        return "ü" + str(x)
    if not x:
        return None
    return max(x - 1, 1)
'''


def test_each_change_is_made_once(tmp_path: Path) -> None:
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


def test_what_only_a_type_checker_reads_has_no_mutants(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "if TYPE_CHECKING:\n    A = 2 + 3\ndef f(x: 4 | 5 = 1) -> 6 | 7:\n    y: 8 | 9 = x + 1\n    z: 8 | 9\n"
    )
    assert [mutant.before for mutant in mutants(path)] == ["x + 1"]


def test_mutants_are_drawn_from_the_seed() -> None:
    paths = [PACKAGE / "notation.py", PACKAGE / "spec.py"]
    first, again, other = (drawn(paths, 5, seed) for seed in (1, 1, 2))
    assert first == again and first != other and len(first) == 5
