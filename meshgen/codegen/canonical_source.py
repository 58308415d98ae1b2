"""The source of a kernel with numbers for names: what is compiled, so that kernels which differ in names alone are built once.

Parameters and local names of the entry function, which come from names of the program, become `v_0`, `v_1`, ... in the order in which they
appear, and its docstring is empty. Lines stay where they are, so line numbers in PTX are those of the source with names.
"""

from __future__ import annotations

import ast
from collections.abc import Collection


def canonical_source(text: str, entry: str, kept: Collection[str]) -> tuple[str, dict[str, str]]:
    """The text of a module with other names in function `entry`, and these by the old ones; names of `kept` stay.

    Raises ValueError for a text without that function.
    """
    function = next((n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == entry), None)
    if function is None:
        raise ValueError(f"the source has no function '{entry}'")
    assigned = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    assigned |= {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names: dict[str, str] = {}
    found: list[tuple[int, int, str]] = []
    for node in ast.walk(function):
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
        if name in assigned and name not in kept and isinstance(node, ast.arg | ast.Name):
            found.append((node.lineno, node.col_offset, name))
    lines = text.encode().split(b"\n")
    for _, _, name in sorted(found):
        names.setdefault(name, f"v_{len(names)}")
    for line, column, name in sorted(found, reverse=True):
        row = lines[line - 1]
        lines[line - 1] = row[:column] + names[name].encode() + row[column + len(name.encode()) :]
    _empty_docstring(function, lines)
    return b"\n".join(lines).decode(), names


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
