"""The source of a kernel with numbers for names: what is compiled, so that kernels which differ in names alone are built once.

Parameters and local names of the entry function, which come from names of the program, become `v_0`, `v_1`, ... in the order in which they
appear, and its docstring is empty. Lines stay where they are, so line numbers in PTX are those of the source with names.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import cast

_PARSED = (
    64  # texts whose syntax is kept: proofs, keys and signatures of a kernel are made of one text soon after each other
)


@lru_cache(_PARSED)
def function_of(text: str, entry: str) -> ast.FunctionDef | None:
    """The syntax of function `entry`, not to be changed; None for a text without one."""
    return next((n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == entry), None)


def canonical_source(text: str, entry: str, kept: Collection[str]) -> tuple[str, dict[str, str]]:
    """The text of a module with other names in function `entry`, and these by the old ones; names of `kept` stay.

    Raises ValueError for a text without that function.
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
    found = [each for each in used if each[2] in assigned]
    lines = text.encode().split(b"\n")
    for _, _, name in sorted(found):
        names.setdefault(name, f"v_{len(names)}")
    for line, column, name in sorted(found, reverse=True):
        row = lines[line - 1]
        lines[line - 1] = row[:column] + names[name].encode() + row[column + len(name.encode()) :]
    _empty_docstring(function, lines)
    return b"\n".join(lines).decode(), names


def walked(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree as `ast.walk` gives them, in another order and without contexts and operators, which are half of them."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            part = getattr(node, name, None)
            if isinstance(part, list):
                waiting += [each for each in cast("list[object]", part) if isinstance(each, ast.AST)]
            elif isinstance(part, ast.AST) and part._fields:
                waiting.append(part)


def _empty_docstring(function: ast.FunctionDef, lines: list[bytes]) -> None:
    first = function.body[0]
    match first:
        case ast.Expr(ast.Constant(str())) if first.end_lineno is not None:
            indent = b" " * first.col_offset
            rows = range(first.lineno - 1, first.end_lineno)
            for row in rows:
                lines[row] = b""
            if len(function.body) == 1:  # nothing else is in it
                lines[rows[-1]] = indent + b"pass"
        case _:
            pass
