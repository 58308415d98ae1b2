"""`python -m tests.kill_compile [--count N] [--seed S]`: kill compiles at random times and check the files that remain.

After each kill, the output must be absent, complete or unchanged, and every entry of the kernel cache must be valid.
The next compile must write the same bytes as an undisturbed one. It must leave nothing beside its output or in the
directory for temporary files. Half of the compiles start with an empty cache. The command exits with code 1 at the
first fault.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from meshgen.codegen.building.cache import Cache

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """func.func @main(%a: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.tanh %a : tensor<64xf32>
  return %0 : tensor<64xf32>
}
"""
SECONDS = 300.0  # seconds, chosen as a limit: no compile takes nearly as long


@dataclass(frozen=True)
class Bench:
    """A directory with a program, a cache, a directory for temporary files, and the expected bytes of the module."""

    root: Path
    before: bytes = b""  # content of another file, which some trials put at the output path
    good: bytes = b""

    @property
    def output(self) -> Path:
        return self.root / "out" / "p.mgx"

    def start(self, program: str) -> subprocess.Popen[bytes]:
        """Start a compile in its own session."""
        variables = {
            "MESHGEN_CACHE_DIR": str(self.root / "cache"),
            "TMPDIR": str(self.root / "tmp"),
            "PYTHONPATH": str(ROOT),
        }
        words = [sys.executable, "-m", "meshgen", "compile", program, "--mesh", "a=2", "-o", str(self.output)]
        return subprocess.Popen(
            words, cwd=self.root, env=os.environ | variables, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def compiled(self, program: str) -> tuple[bytes, float]:
        """Compile `program`. Return the bytes of the module and the seconds that this took."""
        begin = time.monotonic()
        process = self.start(program)
        assert process.wait(SECONDS) == 0, f"{program} does not compile"
        return self.output.read_bytes(), time.monotonic() - begin

    def empty_cache(self) -> None:
        shutil.rmtree(self.root / "cache", ignore_errors=True)


def kill_compiles(count: int, seed: int) -> Counter[str]:
    """Count the states of the output after each kill: absent, complete or unchanged. Raises AssertionError for a fault."""
    draw, states = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kill-compile-") as name:
        folder_path = Path(name)
        for folder in ("out", "tmp"):
            (folder_path / folder).mkdir()
        (folder_path / "p.mlir").write_text(PROGRAM)
        good, cold = Bench(folder_path).compiled("p.mlir")
        _, warm = Bench(folder_path).compiled("p.mlir")
        bench = Bench(folder_path, b"another file", good)
        for trial in range(count):
            is_cold = trial % 2 == 0
            states[_kill_one(bench, is_cold, (cold if is_cold else warm) * draw.random() * 1.1, draw)] += 1
    return states


def _kill_one(bench: Bench, is_cold: bool, delay: float, draw: random.Random) -> str:
    if is_cold:
        bench.empty_cache()  # the last compile may have filled the cache
    had_output = draw.random() < 0.5
    bench.output.unlink(missing_ok=True)
    if had_output:
        bench.output.write_bytes(bench.before)
    process = bench.start("p.mlir")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    with contextlib.suppress(ProcessLookupError):  # the compile has ended
        # kill the compile, with or without the compilers that it started
        (os.killpg if draw.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    state = _state(bench, had_output)
    _check_cache(bench.root / "cache")
    recompiled, _ = bench.compiled("p.mlir")
    assert recompiled == bench.good, "the next compile gives other bytes"
    assert os.listdir(bench.output.parent) == ["p.mgx"], os.listdir(bench.output.parent)
    _wait_until_empty(bench.root / "tmp")
    return state


def _state(bench: Bench, had_output: bool) -> str:
    if not bench.output.exists():
        assert not had_output, "the module that was there is gone"
        return "absent"
    content = bench.output.read_bytes()
    assert content == bench.good or (had_output and content == bench.before), "the output is damaged"
    return "complete" if content == bench.good else "the one before"


def _check_cache(folder: Path) -> None:
    """Require that every entry of the cache is valid."""
    cache = Cache(folder)
    assert cache.warning is None, cache.warning
    for entry in folder.rglob("*.bin"):
        assert cache.get(entry.stem), f"{entry} is damaged"


def _wait_until_empty(folder: Path) -> None:
    """Wait until the temporary files are gone. If only meshgen was killed, the compiler that it started ends by itself
    a little later.
    """
    end = time.monotonic() + 30
    while left := os.listdir(folder):
        assert time.monotonic() < end, f"{left} is left in the directory for temporary files"
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    try:
        counts = kill_compiles(options.count, options.seed)
    except AssertionError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    states = ", ".join(f"{state} {count}" for state, count in sorted(counts.items()))
    sys.stdout.write(f"{options.count} compiles killed in {time.monotonic() - begin:.0f} s; output {states}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
