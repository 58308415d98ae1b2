"""The shape of the source: short files, no leftovers."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "meshgen").rglob("*.py"))
LENGTH = {path: len(path.read_text().splitlines()) for path in FILES}


def test_no_file_is_long() -> None:
    assert {str(path.relative_to(ROOT)): lines for path, lines in LENGTH.items() if lines > 350} == {}


def test_the_median_file_is_short() -> None:
    assert statistics.median(LENGTH.values()) < 200


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short(path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in functions
        if node.end_lineno and node.end_lineno - node.lineno >= 55
    }
    assert long == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_leftovers(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"\bTODO\b|\bFIXME\b|NotImplementedError|/home/|type: ignore(?!\[)", text) == []
