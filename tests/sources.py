"""The source files that rules of the house are about: their text and syntax trees, read once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "meshgen"
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def lines_of(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text().splitlines())


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def refuse(offenders: list[str]) -> None:
    """Fail with all of them, one a line; pytest would cut a list short."""
    assert not offenders, "\n".join(["", *offenders])
