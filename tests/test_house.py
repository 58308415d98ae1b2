"""Rules about the shape of the source: files and functions are short, and there are no leftovers of debugging. Each
test lists all offenders as file:line.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.sources import FILES, ROOT, TESTS, lines_of, nodes_of, place, refuse, tree_of

LEFTOVER = re.compile(r"\bTODO\b|\bFIXME\b|NotImplementedError|/home/|type: ignore(?!\[)")
MOST_LINES = 350
MAX_FUNCTION_LINES = 50
MAX_FILES_PER_NAME = 5


def long_functions(path: Path) -> Iterator[str]:
    for node in nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"{place(path, node.lineno)}: {node.name} has {lines} lines"


def leftovers(path: Path) -> Iterator[str]:
    for line_number, line in enumerate(lines_of(path), start=1):
        yield from (f"{place(path, line_number)}: {leftover}" for leftover in LEFTOVER.findall(line))


def test_no_file_is_long() -> None:
    refuse([place(path, len(lines_of(path))) for path in [*FILES, *TESTS] if len(lines_of(path)) > MOST_LINES])


def test_median_file_is_short() -> None:
    assert statistics.median(len(lines_of(path)) for path in FILES) <= 130


def lengths_of_functions(path: Path) -> list[int]:
    functions = nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]


def test_functions_are_short() -> None:
    refuse([offender for path in FILES for offender in long_functions(path)])
    assert statistics.quantiles([n for path in FILES for n in lengths_of_functions(path)], n=10)[-1] <= 20


TEMPLATES = {"_match", "_emit"}  # functions that every kernel template has


def test_private_names_are_specific() -> None:
    """The name of a private helper must be specific, so that a search for it does not find a dozen other helpers."""
    places_by_name: dict[str, list[str]] = {}
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith("_"):
                places_by_name.setdefault(node.name, []).append(place(path, node.lineno))
    common = {name: places for name, places in places_by_name.items() if len(places) > MAX_FILES_PER_NAME}
    refuse([f"{name}: {', '.join(places)}" for name, places in common.items() if name not in TEMPLATES])


def test_no_leftovers() -> None:
    refuse([offender for path in FILES for offender in leftovers(path)])


def test_names_of_test_files_are_unique() -> None:
    """pytest imports a test file by its name without the folder."""
    names = Counter(path.name for path in TESTS if path.name.startswith("test_"))
    refuse([place(path, 1) for path in TESTS if names[path.name] > 1])


def quick_tests() -> list[Path]:
    """Return the test files of `make quick`."""
    lists = re.findall(r"addprefix (tests/[^,]*),([^)]+)\)", (ROOT / "Makefile").read_text())
    return [ROOT / f"{folder}{name}" for folder, names in lists for name in names.replace("\\", "").split()]


def test_make_quick_names_tests_of_every_folder() -> None:
    refuse([f"{path} is not there" for path in quick_tests() if path not in TESTS])
    folders = [{path.relative_to(ROOT / "tests").parts[0] for path in paths if path.name.startswith("test_")}
               for paths in (TESTS, quick_tests())]  # fmt: skip
    refuse([f"tests/{name} is not among them" for name in sorted(folders[0] - folders[1]) if not name.endswith(".py")])
