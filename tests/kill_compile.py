"""`python -m tests.kill_compile [--count N] [--seed S]`: kill compiles at random times and see what is left.

After each, the output is absent, complete or what it was before; every entry of the cache is sound; the next compile gives
the same bytes as one that nobody killed, and leaves nothing beside its output or in the directory for temporary files.
Half of the compiles begin with an empty cache. Exits 1 with the first fault.
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
SECONDS = 300.0  # no compile takes nearly so long


@dataclass(frozen=True)
class Bench:
    """A directory with a program, a cache, a directory for temporary files, and the bytes of the module."""

    place: Path
    before: bytes = b""  # of another file, which is at the output sometimes
    good: bytes = b""

    @property
    def output(self) -> Path:
        return self.place / "out" / "p.mgx"

    def start(self, program: str) -> subprocess.Popen[bytes]:
        """A compile in a session of its own."""
        own = {
            "MESHGEN_CACHE_DIR": str(self.place / "cache"),
            "TMPDIR": str(self.place / "tmp"),
            "PYTHONPATH": str(ROOT),
        }
        words = [sys.executable, "-m", "meshgen", "compile", program, "--mesh", "a=2", "-o", str(self.output)]
        return subprocess.Popen(
            words, cwd=self.place, env=os.environ | own, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def compiled(self, program: str) -> tuple[bytes, float]:
        """The module's bytes, and the seconds that it took."""
        begin = time.monotonic()
        process = self.start(program)
        assert process.wait(SECONDS) == 0, f"{program} does not compile"
        return self.output.read_bytes(), time.monotonic() - begin

    def empty_cache(self) -> None:
        shutil.rmtree(self.place / "cache", ignore_errors=True)


def kill_compiles(count: int, seed: int) -> Counter[str]:
    """What was at the output after each kill: absent, complete, the one before, or it had ended. Raises AssertionError."""
    draw, found = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kill-compile-") as name:
        place = Path(name)
        for folder in ("out", "tmp"):
            (place / folder).mkdir()
        (place / "p.mlir").write_text(PROGRAM)
        good, cold = Bench(place).compiled("p.mlir")
        _, warm = Bench(place).compiled("p.mlir")
        bench = Bench(place, b"another file", good)
        for number in range(count):
            is_cold = number % 2 == 0
            found[_kill_one(bench, is_cold, (cold if is_cold else warm) * draw.random() * 1.1, draw)] += 1
    return found


def _kill_one(bench: Bench, is_cold: bool, delay: float, draw: random.Random) -> str:
    if is_cold:
        bench.empty_cache()  # else the last compile has filled it
    there = draw.random() < 0.5
    bench.output.unlink(missing_ok=True)
    if there:
        bench.output.write_bytes(bench.before)
    process = bench.start("p.mlir")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    with contextlib.suppress(ProcessLookupError):  # it has ended
        (os.killpg if draw.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)  # with its compilers, or alone
    process.wait()
    state = _state(bench, there)
    _check_cache(bench.place / "cache")
    again, _ = bench.compiled("p.mlir")
    assert again == bench.good, "the next compile gives other bytes"
    assert os.listdir(bench.output.parent) == ["p.mgx"], os.listdir(bench.output.parent)
    _wait_until_empty(bench.place / "tmp")
    return state


def _state(bench: Bench, there: bool) -> str:
    if not bench.output.exists():
        assert not there, "the module that was there is gone"
        return "absent"
    content = bench.output.read_bytes()
    assert content == bench.good or (there and content == bench.before), "the output is damaged"
    return "complete" if content == bench.good else "the one before"


def _check_cache(place: Path) -> None:
    """Every entry is read back as it was stored."""
    cache = Cache(place)
    assert cache.warning is None, cache.warning
    for entry in place.rglob("*.bin"):
        assert cache.get(entry.stem), f"{entry} is damaged"


def _wait_until_empty(place: Path) -> None:
    """A compiler whose meshgen was killed alone ends a little later by itself."""
    end = time.monotonic() + 30
    while left := os.listdir(place):
        assert time.monotonic() < end, f"{left} is left in the directory for temporary files"
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    try:
        found = kill_compiles(options.count, options.seed)
    except AssertionError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    states = ", ".join(f"{state} {count}" for state, count in sorted(found.items()))
    sys.stdout.write(f"{options.count} compiles killed in {time.monotonic() - begin:.0f} s; output {states}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
