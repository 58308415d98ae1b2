"""The modules of this project that a source file imports, read from its syntax tree."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.sources import FILES, ROOT, TESTS, nodes_of


def name_of(path: Path) -> str:
    """Return the dotted name of a module of `meshgen` or `tests`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PATHS = {name_of(path): path for path in (*FILES, *TESTS)}


def imports(path: Path, *, typed: bool = False) -> list[tuple[int, str]]:
    """Return line and module of each import of a module of `meshgen` or `tests`. Imports inside functions count too.

    Args:
        typed: whether to include imports that are only executed under `TYPE_CHECKING`.
    """
    skipped = {
        id(inner)
        for node in (() if typed else nodes_of(path, ast.If))
        if "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    imported: list[tuple[int, str]] = []
    for node in nodes_of(path, ast.ImportFrom, ast.Import):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            imported += [(node.lineno, alias.name) for alias in node.names if _is_of_project(alias.name)]
        elif node.module and _is_of_project(node.module):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            is_package = node.module == "meshgen"  # in `from meshgen import api`, the name is a module or a public name
            imported += [(node.lineno, name if name in PATHS or is_package else node.module) for name in names]
    return imported


def _is_of_project(module: str) -> bool:
    return module.partition(".")[0] in ("meshgen", "tests")
