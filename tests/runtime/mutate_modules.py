"""Mutate modules of many kinds at random. Commands on a mutant may only end in refusals, run-time failures or results.

    python -m tests.runtime.mutate_modules --count 10000 --seed 1 [--keep FOLDER]

A mutant is loaded, run on the reference device, inspected and compared with itself. Exit codes 0, 1, 3, 4 and 5 are
allowed. A mutant that ends with another code, takes too much time or memory, runs code or leaves files is kept, and
reported with its seed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meshgen import cli
from meshgen.runtime import memory_estimate as footprint
from meshgen.runtime.module_file import container
from tests.runtime.module_kinds import KINDS
from tests.runtime.mutations import Original, mutant

# exit code 3: replicas differ, because the mutant says so; 5: the module was not compiled for these sizes
ALLOWED = (0, 1, 3, 4, 5)
SIZES = ["--mesh", "a=2", "--shape", "x=6x8"]
# CPU seconds of a command, and bytes beyond those in use before; chosen: more than any valid module needs
SECONDS, MEMORY = 20, 3 << 30


class TooLongError(BaseException):
    """A command exceeds SECONDS. This is a BaseException, so that no handler inside the command catches it."""


def commands(path: str, kind: str) -> list[list[str]]:
    at = SIZES if kind == "open sizes" else []
    on_gpus = [
        ["run", path, "--device", "emulate", "--time-limit", "3"],
        ["native", path, "-o", os.devnull, "--time-limit", "3"],
    ]
    return [
        *(on_gpus if kind == "code for GPUs" else []),
        ["run", path, *at, "--time-limit", "3"],
        ["inspect", path, "--schedule", *at],
        ["inspect", path, "--json"],
        ["diff", path, path],
    ]


def outcome(path: Path, kind: str, faults: list[str]) -> int:
    """Run all commands on a mutant and return the highest exit code. Append forbidden outcomes to `faults`."""
    highest = 0
    for words in commands(str(path), kind):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _timed(words, faults)
        text = out.getvalue() + err.getvalue()
        if code not in ALLOWED:
            faults.append(f"{words[0]}: exit {code}: {err.getvalue()[:300]}")
        if "not enough memory" in text:
            faults.append(f"{words[0]}: out of memory")
        if any(character in text for character in ("\x1b", "\ud800")):
            faults.append(f"{words[0]}: a control character")
        highest = max(highest, code)
    return highest


def _timed(words: list[str], faults: list[str]) -> int:
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return cli.main(words)
    except TooLongError:
        faults.append(f"{words[0]}: more than {SECONDS} s")
        return 4
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(*_: Any) -> None:
    raise TooLongError


@contextlib.contextmanager
def guarded(faults: list[str]) -> Iterator[None]:
    """Within the context, append internal errors to `faults`, and limit memory to that of a small machine."""
    internal, free, limits = cli._internal, footprint.free_bytes, resource.getrlimit(resource.RLIMIT_AS)

    def append_error(error: Exception, words: list[str]) -> int:
        faults.append("".join(traceback.format_exception(error)[-6:]))
        return 70

    resident_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    cli._internal, footprint.free_bytes = append_error, lambda: 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (resident_bytes + MEMORY, limits[1]))
    try:
        yield
    finally:
        cli._internal, footprint.free_bytes = internal, free
        resource.setrlimit(resource.RLIMIT_AS, limits)


def originals(folder: Path, kinds: list[str]) -> list[Original]:
    modules: list[Original] = []
    for kind in kinds:
        path = folder / f"{kind.replace(' ', '_')}.mgx"
        KINDS[kind](path)
        modules.append(Original.of(kind, path))
    return modules


def mutate(sources: list[Original], first: int, count: int, folder: Path) -> tuple[collections.Counter[tuple[str, int]], list[str]]:  # fmt: skip
    """Run `count` mutants with seeds from `first`. Return the number of mutants per kind and exit code, and the faults."""
    table: collections.Counter[tuple[str, int]] = collections.Counter()
    reports: list[str] = []
    path = folder / "mutant.mgx"
    for seed in range(first, first + count):
        source, faults = sources[seed % len(sources)], list[str]()
        before = sorted(os.listdir())
        try:
            container.write(path, mutant(source, random.Random(seed)))
        # the mutation itself calls the verifier, which may raise as it would on loading
        except Exception:
            reports.append(f"seed {seed} ({source.name}): forging: {traceback.format_exc()}")
            continue
        with guarded(faults):
            table[source.name, outcome(path, source.name, faults)] += 1
        if sorted(os.listdir()) != before:
            faults.append("it wrote a file")
        if faults:
            path.rename(folder / f"mutant-{seed}.mgx")
            reports.append(f"seed {seed} ({source.name}): " + "\n".join(dict.fromkeys(faults)))
    return table, reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for mutants with faults")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    sources = originals(folder, options.kinds)
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        table, reports = mutate(sources, options.seed, options.count, folder.resolve())
    for (name, code), count in sorted(table.items()):
        sys.stdout.write(f"{name:20} exit {code:2}: {count}\n")
    for text in reports:
        sys.stdout.write(text + "\n")
    sys.stdout.write(f"{options.count} mutants, {len(reports)} with faults, kept in {folder}\n")
    return bool(reports)


if __name__ == "__main__":
    sys.exit(main())
