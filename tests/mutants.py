"""Thousands of malformed programs. meshgen must run each or refuse it with a diagnostic; an internal error is a fault
of meshgen.

    python -m tests.mutants [--count 10000] [--seed 0] [--keep DIR] [--jax] [FILE ...]

The programs are FILEs, or by default those of tests/mlir/every_op.py and tests/data, and random ones. `mutator.py`
changes a program into a mutant, which goes through `meshgen check`. A third of the mutants are random operations
(tests/mlir/made_operations.py), unchanged or mutated. Mutants that crash or take too long are written to DIR. If the
unsharded program itself never ends, this is not a fault. With --jax, mutants that meshgen accepts but JAX's parser of
StableHLO and Shardy refuses are written too.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from meshgen.cli import INTERNAL_ERROR, INTERRUPTED, main
from meshgen.errors import MeshgenError
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.random_arrays import random_array
from meshgen.testing.random_graphs import random_program
from tests.mlir.every_op import NAMES, SCHED, program
from tests.mlir.made_operations import NAMES as MADE
from tests.mlir.made_operations import random_program as random_op_program
from tests.mlir.payload import Case
from tests.mutator import mutant

_DATA = Path(__file__).parent / "data"
_SECONDS, _BYTES = 30, 8 << 30
_TESTS = (
    "tests.mlir.test_tosa",
    "tests.mlir.test_tosa_whole_numbers",
    "tests.ops.test_linalg",
    "tests.mlir.test_stablehlo_written",
    "tests.mlir.test_upstream_structure",
    "tests.mlir.test_upstream_places",
    "tests.mlir.test_upstream_scalars",
)
_RANDOM = 60  # number of programs from the random generator
VERDICTS = {
    0: "accepted",
    1: "refused",
    2: "refused",  # the program is at a stage from which `check` cannot continue
    3: "numbers differ",
    4: "too big",
    INTERNAL_ERROR: "crashed",
    INTERRUPTED: "slow",
}


def checked(text: str, folder: Path) -> tuple[int, str]:
    """Return the exit code of `meshgen check`, and its stderr."""
    file, errors = folder / "mutant.mlir", io.StringIO()
    file.write_text(text)
    mesh = [] if re.search(r"mesh|shard\.grid|num_partitions|num_replicas", text) else ["--mesh", "x=2"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main(["check", str(file), *mesh, "--memory", "4GB"])
    return code, errors.getvalue()


def sources_of(files: Sequence[str], use_jax: bool) -> list[str]:
    """Return the programs to mutate. With `use_jax`, these are only programs without dialects that JAX cannot parse."""
    if files:
        return [Path(file).read_text() for file in files]
    written = [path.read_text() for path in sorted(_DATA.rglob("*.mlir"))]
    written += [case.text() for name in _TESTS for case in _cases(import_module(name))]
    generated = [print_text(random_program(seed)) for seed in range(_RANDOM)]
    if use_jax:
        return [program(name) for name in NAMES if name not in SCHED]
    return [*(program(name) for name in NAMES), *written, *generated]


def _cases(module: ModuleType) -> list[Case]:
    """Return all cases from the tables of a test module."""
    tables = [table for table in vars(module).values() if isinstance(table, dict)]
    return [case for table in tables for case in table.values() if isinstance(case, Case)]


def _text(sources: Sequence[str], number: int, options: argparse.Namespace) -> str:
    """Return the mutant with this number."""
    if number % 3 or options.files or options.jax:
        return mutant(sources[number % len(sources)], number)
    text = random_op_program(MADE[number // 3 % len(MADE)], number)
    return text if number % 2 else mutant(text, number)


def _judge(use_jax: bool) -> Any:
    """Return a function from a text to JAX's reason to refuse it. The reason is "" if JAX accepts the text, or always
    "" without `use_jax`.
    """
    if not use_jax:
        return lambda _: ""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir

    context = make_ir_context()

    def refusal(text: str) -> str:
        with context:
            try:
                ir.Module.parse(text)
            except ir.MLIRError as error:
                return next((str(diagnostic.message) for diagnostic in error.error_diagnostics), str(error))
        return ""

    return refusal


def _on_alarm(*_: object) -> None:
    raise KeyboardInterrupt  # the command line tells an interrupt from faults by its exit code, INTERRUPTED


def _is_endless(text: str) -> bool:
    """Whether the program itself does not end: it is run on one device and not checked."""
    try:
        graph = parse_text(text).graph
        signal.alarm(_SECONDS)
        evaluate(graph, [random_array(value.type, [0, number]) for number, value in enumerate(graph.inputs)])
    except KeyboardInterrupt:
        return True
    except (MeshgenError, ValueError):  # this function does not decide programs with several meshes or open sizes
        return False
    finally:
        signal.alarm(0)
    return False


def run(options: argparse.Namespace) -> int:
    sources, judge, counts = sources_of(options.files, options.jax), _judge(options.jax), Counter[str]()
    keep = Path(options.keep)
    signal.signal(signal.SIGALRM, _on_alarm)
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.seed, options.seed + options.count):
            text = _text(sources, number, options)
            signal.alarm(_SECONDS)
            code, errors = checked(text, Path(folder))
            signal.alarm(0)
            verdict = VERDICTS.get(code, str(code))
            verdict = "endless" if verdict == "slow" and _is_endless(text) else verdict
            reason = judge(text) if verdict == "accepted" else ""
            counts["accepted, refused by JAX" if reason else verdict] += 1
            if verdict not in ("accepted", "refused", "too big", "endless") or reason:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{number}.mlir").write_text(text)
                lines = [line for line in errors.splitlines() if line.strip()]
                sys.stdout.write(f"{number}: {verdict}: {(reason or (lines[0] if lines else ''))[:300]}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{options.count} mutants from seed {options.seed} on: {dict(sorted(counts.items()))}\n")
    return 1 if counts["crashed"] or counts["slow"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", metavar="DIR", default="mutants")
    parser.add_argument("--jax", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(run(arguments()))
