"""Kernel source with canonical names, so that kernels that differ only in names are compiled once.

The parameters and local names of the entry function, which derive from names of the program, become `v_0`, `v_1`, ...
in order of appearance. Its docstring is emptied. Lines do not move, so line numbers in PTX match the source with the
original names.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import cast

# syntax trees in the cache; chosen: proofs, cache keys and signatures parse the same kernel in quick succession
_CACHED_TREES = 64


@lru_cache(_CACHED_TREES)
def function_of(text: str, entry: str) -> ast.FunctionDef | None:
    """Return the syntax tree of function `entry`, which must not be modified, or None if `text` does not define it."""
    return next((n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == entry), None)


def canonical_source(text: str, entry: str, kept: Collection[str]) -> tuple[str, dict[str, str]]:
    """Rename the parameters and locals of function `entry`, except the names in `kept`.

    Returns:
        The new source, and the new names by the original ones.
    Raises:
        ValueError: `text` does not define the function.
    """
    function = function_of(text, entry)
    if function is None:
        raise ValueError(f"the source has no function '{entry}'")
    assigned: set[str] = set()
    used: list[tuple[int, int, str]] = []
    for node in walked(function):
        if isinstance(node, ast.Name):
            used.append((node.lineno, node.col_offset, node.id))
            if isinstance(node.ctx, ast.Store):
                assigned.add(node.id)
        elif isinstance(node, ast.arg):
            used.append((node.lineno, node.col_offset, node.arg))
            assigned.add(node.arg)
    assigned.difference_update(kept)
    names: dict[str, str] = {}
    occurrences = [occurrence for occurrence in used if occurrence[2] in assigned]
    lines = text.encode().split(b"\n")
    for _, _, name in sorted(occurrences):
        names.setdefault(name, f"v_{len(names)}")
    for line, column, name in sorted(occurrences, reverse=True):
        source_line = lines[line - 1]
        lines[line - 1] = source_line[:column] + names[name].encode() + source_line[column + len(name.encode()) :]
    _empty_docstring(function, lines)
    return b"\n".join(lines).decode(), names


def walked(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree like `ast.walk`, in another order.

    Skips contexts and operators, which are half of all nodes.
    """
    worklist = [tree]
    while worklist:
        node = worklist.pop()
        yield node
        for name in node._fields:
            part = getattr(node, name, None)
            if isinstance(part, list):
                worklist += [child for child in cast("list[object]", part) if isinstance(child, ast.AST)]
            elif isinstance(part, ast.AST) and part._fields:
                worklist.append(part)


def _empty_docstring(function: ast.FunctionDef, lines: list[bytes]) -> None:
    first = function.body[0]
    match first:
        case ast.Expr(ast.Constant(str())) if first.end_lineno is not None:
            indent = b" " * first.col_offset
            rows = range(first.lineno - 1, first.end_lineno)
            for row in rows:
                lines[row] = b""
            if len(function.body) == 1:  # A function body must contain at least one statement.
                lines[rows[-1]] = indent + b"pass"
        case _:
            pass
