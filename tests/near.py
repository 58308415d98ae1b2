"""The tests nearest to a source file, to run after an edit: `make near FILE=meshgen/codegen/scheduling/memory.py`.

    python -m tests.near [--most 12] FILE ...     prints test files, nearest first

Tests that are named after the module come first. Then tests alternate from two rankings: by the fewest imports from the
test to the module, and by the number of words that the test and the module share. Rare words and words of the module's
name count more. A shared folder, also at the start of the test's name, counts as one import less. Among equals, tests
of the whole pipeline come last.

Both rankings are needed. If only one stage imports a helper module, whole programs test it; they are far away by
imports but share words. If nearly everything imports a module, all tests are equally near by imports. The module of a
pass also has tests/passes/<name>.mlir.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections import Counter, deque
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.imports import PATHS, imports, name_of
from tests.sources import PACKAGE, ROOT, TESTS

MOST = 12  # test files for one module (chosen: about a minute of CPU time)
_PASS_FILES = ROOT / "tests" / "passes"
_LEAST_LETTERS = 4  # letters of the shortest word that may be a name or a part of a message
_UNCONNECTED = 1 << 30  # distance of a test from which no imports lead to the module


def nearest_tests(path: Path, most: int = MOST) -> list[Path]:
    """Return up to `most` test files for a file of the package, nearest first. The nearest test of a test file is the
    file itself. Raises ValueError if the path is not a Python file of the project.
    """
    path = path.resolve()
    if path in TESTS and path.name.startswith("test_"):
        return [path]
    if path not in PATHS.values():
        raise ValueError(f"{path} is no Python file of meshgen or tests")
    distances, words = _distances_to(name_of(path)), _words(path)

    def nearness(test: Path) -> tuple[int, bool, float]:
        imports_between = distances.get(name_of(test), _UNCONNECTED) - _shared_folders(test, path)
        return imports_between, "acceptance" in test.parts, -likeness(test)

    def likeness(test: Path) -> float:
        shared = sum(_rarity(word) for word in words & _words(test)) / math.sqrt(len(_words(test)) + 1)
        return shared * (1 + len(_name_words(path) & _name_words(test)))

    test_files = sorted(test for test in TESTS if test.name.startswith("test_"))
    named = sorted((test for test in test_files if _is_named_after(test, path)), key=nearness)
    rankings = sorted(test_files, key=nearness), sorted(test_files, key=likeness, reverse=True)
    tests = dict.fromkeys([*named, *itertools.chain.from_iterable(zip(*rankings, strict=True))])
    pass_tests = (
        [_PASS_FILES / "test_pass_files.py"] if any(_PASS_FILES.glob(f"{path.stem.replace('_', '-')}.*mlir")) else []
    )
    return [*pass_tests, *(test for test in tests if test not in pass_tests)][:most]


def _is_named_after(test: Path, path: Path) -> bool:
    """Whether the name of the test starts with the name of the module: `test_memory_limits.py` tests `memory.py`."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    return test.stem == f"test_{stem}" or test.stem.startswith(f"test_{stem}_")


@cache
def _words(path: Path) -> frozenset[str]:
    """Return the words of a file that are long enough to be names or parts of messages."""
    return frozenset(re.findall(rf"\w{{{_LEAST_LETTERS},}}", path.read_text()))


def _name_words(path: Path) -> set[str]:
    return {word for word in path.stem.split("_") if len(word) >= _LEAST_LETTERS}


@cache
def _rarity(word: str) -> float:
    """Return the weight of a word. The fewer tests have it, the larger the weight; it is 0 if every test has it."""
    return math.log(len(TESTS) / max(1, _uses()[word]))


@cache
def _uses() -> Counter[str]:
    """Return, for each word, the number of test files that have it."""
    return Counter(word for test in TESTS for word in _words(test))


def _shared_folders(test: Path, path: Path) -> int:
    """Return how many leading folders `test` below tests/ and `path` below meshgen/ have in common.
    `test_onnx_models.py` counts as if it were in a folder `onnx`.
    """
    root = PACKAGE if path.is_relative_to(PACKAGE) else ROOT / "tests"
    folders = (*test.relative_to(ROOT / "tests").parts[:-1], *test.stem.removeprefix("test_").split("_"))
    pairs = zip(folders, path.relative_to(root).parts[:-1], strict=False)
    count = 0
    for folder, other in pairs:
        if folder != other:
            break
        count += 1
    return count


def _distances_to(module: str) -> dict[str, int]:
    """Return the smallest number of imports that lead to `module` from each module that depends on it."""
    importers = _importers()
    distances, queue = {module: 0}, deque([module])
    while queue:
        current = queue.popleft()
        for importer in importers.get(current, ()):
            if importer not in distances:
                distances[importer] = distances[current] + 1
                queue.append(importer)
    return distances


@cache
def _importers() -> dict[str, list[str]]:
    importers: dict[str, list[str]] = {}
    for name, path in PATHS.items():
        for module in dict.fromkeys(module for _, module in imports(path)):
            importers.setdefault(module, []).append(name)
    return importers


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.near", description="Print the test files nearest to source files."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"test files per source file ({MOST})")
    options = parser.parse_args(list(words) if words is not None else None)
    try:
        tests = dict.fromkeys(test for file in options.files for test in nearest_tests(file, options.most))
    except ValueError as error:
        parser.error(str(error))
    print(*(test.relative_to(ROOT) for test in tests), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
