"""Mutation testing: make small random changes of the source, and run the nearest tests for each.

    python -m tests.source_mutants [--count 200] [--seed 0] [--time-out 300] [--most 12] [--whole] [PATH ...]

A mutant swaps a comparison, `and` and `or`, `+` and `-`, `min` and `max`, drops a guard (an `if` whose body only
leaves), negates a condition, or changes an integer. A small integer (an index, a rank, a count) changes by one. A large
one (a limit, a table size, a cost) is doubled, because hardly any program is so close to a limit that a change by one
matters. Decorators, which set cache sizes, and assertions, which hold for all programs, are not changed.

Each mutant is made in a copy of the tree, and `tests.near` selects the tests that should detect it. A line of the
output has file:line, the change, and the test that fails with the mutant and passes without it. The last line has the
fraction of mutants that survived. --whole runs all tests of a survivor's folder. PATH restricts mutants to files or
folders of the package.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.near import MOST, nearest_tests
from tests.sources import FILES, PACKAGE, ROOT

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SMALL = 16  # chosen: a larger integer is doubled, a smaller one changes by one
_FIRST = 2  # chosen: test files that run before the other tests are even collected, because they detect most mutants
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """A change of one expression or statement. It has the text before and after, and the source of the changed file."""

    path: Path
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before}  ->  {self.after}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file, in source order."""
    source = path.read_text()
    for node in _executed(ast.parse(source)):
        if isinstance(node, ast.expr | ast.stmt):
            for changed in _changes(node):
                before, after = ast.unparse(node), ast.unparse(changed)
                text = _replaced(source, node, after if isinstance(node, ast.stmt) else f"({after})")
                yield Mutant(path, node.lineno, _head(before), _head(after), text)


def _head(text: str) -> str:
    """Return the first line of a statement. An expression on one line is returned unchanged."""
    return text.splitlines()[0][:160]


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its descendants, without assertions, decorators, annotations and blocks that only a type checker
    reads.
    """
    if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _executed(child)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a changed copy of `node` for each of its mutants."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            if type(operator) in _COMPARISONS:
                changed = copy.deepcopy(node)
                changed.ops[index] = _COMPARISONS[type(operator)]()
                yield changed
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        changed = copy.deepcopy(node)
        changed.op = _ARITHMETIC[type(node.op)]()
        yield changed
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        changed = copy.deepcopy(node)
        changed.func = ast.Name(_FUNCTIONS[node.func.id])
        yield changed
    elif isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and isinstance(node.body[0], _LEAVING):
        yield ast.Pass()
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
        yield ast.Constant(node.value + 1 if node.value <= _SMALL else 2 * node.value)


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand of `+` or `-` is a string or None. Then swapping the operators would only raise a type error."""
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and side.value is None) for side in sides
    ) or any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """Return the source with the text of `node` replaced. Column offsets in a syntax tree count UTF-8 bytes, not
    characters.
    """
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    assert node.end_lineno is not None and node.end_col_offset is not None
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    encoded = source.encode()
    return (encoded[:start] + text.encode() + encoded[end:]).decode()


def drawn(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw `count` mutants. First a package is drawn, then a file, then a change, so that small packages are tested
    too.
    """
    generator = random.Random(seed)
    packages: dict[tuple[str, ...], list[Path]] = {}
    for path in paths:
        packages.setdefault(path.relative_to(PACKAGE).parent.parts[:1], []).append(
            path
        )  # () is the key of the files directly in the root package
    chosen: dict[tuple[Path, int, str], Mutant] = {}
    for _ in range(20 * count):
        if len(chosen) == count:
            break
        path = generator.choice(packages[generator.choice(sorted(packages))])
        if changes := [mutant for mutant in mutants(path) if mutant.before != mutant.after]:
            mutant = generator.choice(changes)
            chosen[mutant.path, mutant.line, mutant.after] = mutant
    return list(chosen.values())


def killer(mutant: Mutant, copy_of_tree: Path, tests: Sequence[Path], time_out: float) -> str:
    """Return the first test that fails with the mutant in the copy but passes without it, or "" if there is none. A
    test that exceeds the time-out counts as failed.
    """
    changed = copy_of_tree / mutant.path.relative_to(ROOT)
    before, names = changed.read_text(), [str(test.relative_to(ROOT)) for test in tests]
    groups = [group for group in (names[:_FIRST], names[_FIRST:]) if group]
    broken: list[str] = []
    while True:
        changed.write_text(mutant.source)
        try:
            runs = (first_failure(copy_of_tree, group, broken, time_out) for group in groups)
            failed = next(filter(None, runs), "")
        finally:
            changed.write_text(before)
        if not failed.startswith("tests/") or not first_failure(copy_of_tree, [failed], [], time_out):
            return failed
        broken.append(failed)


def first_failure(tree: Path, tests: Sequence[str], without: Sequence[str], time_out: float) -> str:
    """Return the name of the first test that fails, in pytest's form. Return how the run ended if it ended otherwise,
    or "" if all tests pass.
    """
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-n", "0", "-p", "no:cacheprovider"]
    words += [f"--deselect={test}" for test in without]
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            [*words, *tests], cwd=tree, env=settings, stdout=output, stderr=output, start_new_session=True
        ) as process,
    ):
        try:
            status = process.wait(time_out)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "time-out"
        if not status:
            return ""
        output.seek(0)
        failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output.read(), re.MULTILINE)
        return failed[0] if failed else f"exit status {status}"


def _folder_tests(path: Path) -> list[Path]:
    folder = ROOT / "tests" / path.relative_to(PACKAGE).parts[0]
    return [folder] if folder.is_dir() else nearest_tests(path, 4 * MOST)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.source_mutants", description="Mutation testing with the nearest tests."
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders of the package (all)")
    parser.add_argument("--count", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument(
        "--time-out", type=float, default=300, metavar="SECONDS", help="for the tests of one mutant (300)"
    )
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"test files per mutant ({MOST})")
    parser.add_argument("--whole", action="store_true", help="run survivors against the whole folder of tests")
    options = parser.parse_args()
    roots = [path.resolve() for path in options.paths] or [PACKAGE]
    paths = [path for path in FILES if any(path == root or path.is_relative_to(root) for root in roots)]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "build", "__pycache__"))
        for number, mutant in enumerate(drawn(paths, options.count, options.seed)):
            failed = killer(mutant, tree, nearest_tests(mutant.path, options.most), options.time_out)
            if not failed and options.whole:
                failed = killer(mutant, tree, _folder_tests(mutant.path), 10 * options.time_out)
            counts["killed" if failed else "survived"] += 1
            print(f"{number:4} {'killed  ' if failed else 'SURVIVED'} {mutant}  [{failed}]", flush=True)  # noqa: T201
    total = counts.total()
    print(f"{counts['survived']} of {total} survived ({100 * counts['survived'] / max(1, total):.0f} %)")  # noqa: T201


if __name__ == "__main__":
    main()
