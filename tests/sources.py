"""The source files that the house rules check: their text and syntax trees, read once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from meshgen.gc_pace import infrequent_gc

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
    """Return the syntax tree of a file. Garbage collection is paused meanwhile, because it would triple the time and
    free nothing: trees have no cycles and are all kept.
    """
    with infrequent_gc():
        return ast.parse(path.read_text())


@cache
def nodes_by_kind(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    """Return the nodes of a file's tree by type, each list in the order of `ast.walk`."""
    nodes: dict[type[ast.AST], list[ast.AST]] = {}
    with infrequent_gc():
        for node in ast.walk(tree_of(path)):
            nodes.setdefault(type(node), []).append(node)
    return nodes


def nodes_of(path: Path, *kinds: type[N]) -> Iterator[N]:
    """Yield the nodes of the types `kinds`, one type after the other."""
    for kind in kinds:
        yield from nodes_by_kind(path).get(kind, [])  # type: ignore[misc]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def refuse(offenders: list[str]) -> None:
    """Fail with `offenders`, one per line. An `assert` on the list would print it truncated."""
    assert not offenders, "\n".join(["", *offenders])
