"""The source files that rules of the house are about: their text and syntax trees, read once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from meshgen.gc_pace import rarely_collecting

N = TypeVar("N", bound=ast.AST)
ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "meshgen"
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def lines_of(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text().splitlines())


@cache
def tree_of(path: Path) -> ast.Module:
    """Read without looking for cycles: trees have none, and all of them stay, so that would take twice as long as the rest."""
    with rarely_collecting():
        return ast.parse(path.read_text())


@cache
def nodes_by_kind(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    """The nodes of a file's tree, each kind of them in the order of `ast.walk`."""
    found: dict[type[ast.AST], list[ast.AST]] = {}
    with rarely_collecting():
        for node in ast.walk(tree_of(path)):
            found.setdefault(type(node), []).append(node)
    return found


def nodes_of(path: Path, *kinds: type[N]) -> Iterator[N]:
    """Those of some kinds, one kind after the other."""
    for kind in kinds:
        yield from nodes_by_kind(path).get(kind, [])  # type: ignore[misc]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def refuse(offenders: list[str]) -> None:
    """Fail with all of them, one a line; pytest would cut a list short."""
    assert not offenders, "\n".join(["", *offenders])
