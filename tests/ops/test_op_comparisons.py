"""Passes ask records of ops for what they need to know: how often a package compares a node's op with names may only go down."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.sources import FILES, PACKAGE, refuse, tree_of

FREE = (
    "ops",
    "mlir",
    "testing",
    "emulator",
)  # where ops are defined, written and made; the emulator's are those of PTX
MOST = {"ccl": 4, "codegen": 88, "ir": 25, "reports": 17, "runtime": 32, "sharding": 226, "simulator": 2, "sizes": 18}


def _says_names(value: ast.expr, lists: dict[str, ast.expr]) -> bool:
    """Whether an expression has names of ops in it, by itself or through a list of the same file."""
    found = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} & lists.keys()
    texts = [node for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return bool(texts) or any(_says_names(lists[name], {}) for name in found)


def comparisons(tree: ast.Module) -> int:
    """How often a file compares an attribute `op` with names of ops, or with a list that it writes down itself."""
    lists = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    return sum(
        any(isinstance(side, ast.Attribute) and side.attr == "op" for side in sides)
        and any(_says_names(side, lists) for side in sides)
        for sides in ([node.left, *node.comparators] for node in found)
    )


def _counts() -> Counter[str]:
    counts = Counter[str]()
    for path in FILES:
        place = path.relative_to(PACKAGE).parts
        if place[0] not in FREE:
            counts[place[0]] += comparisons(tree_of(path))
    return +counts


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('node.op == "add"', 1),
        ('node.op in ("add", *OTHERS)', 1),
        ('_SUMS = ("add",)\nnode.op in _SUMS and node.op not in _SUMS', 2),
        ("from meshgen.ops.classes import VIEWS\nnode.op in VIEWS", 0),
        ("_READ = POINTWISE | LAYOUT\nnode.op in _READ", 0),
        ('node.attrs["kind"] == "add"', 0),
        ("first.op == second.op", 0),
    ],
)
def test_what_is_counted(source: str, count: int) -> None:
    assert comparisons(ast.parse(source)) == count


def test_no_package_compares_ops_with_names_more_often() -> None:
    refuse(
        [
            f"{name}: {count}, at most {MOST.get(name, 0)}"
            for name, count in _counts().items()
            if count > MOST.get(name, 0)
        ]
    )
