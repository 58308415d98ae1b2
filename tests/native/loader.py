"""Build the C loader and substitutes for NVIDIA's libraries, and run modules with `mgx-run`."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.runtime.loading import load
from meshgen.runtime.native.export import SOURCES
from tests.native.emulated_gpu import Server

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or ""
SANITIZERS = "-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Outcome:
    """The exit code of a run, its output and error text, results by name, and the server of the emulated GPU."""

    code: int
    output: str
    errors: str
    results: Mapping[str, Array]
    server: Server | None = None


def build(folder: Path, flags: str = "-O2") -> Path:
    """Compile `mgx-run` and return its path."""
    completed = subprocess.run(
        ["make", "-s", "-C", str(SOURCES), f"OUT={folder}", f"CFLAGS={flags}"], capture_output=True, text=True
    )
    assert not completed.returncode, completed.stderr
    return folder / "mgx-run"


@cache
def sanitized() -> Path:
    """Compile `mgx-run` and `libmeshgen.a` with sanitizers, once per process."""
    folder = tempfile.TemporaryDirectory(prefix="mgx-run-")
    atexit.register(folder.cleanup)
    return build(Path(folder.name), SANITIZERS)


def build_libraries(folder: Path, source: str, flags: str = "-O2") -> Path:
    """Compile one C file of this folder to `libcuda.so.1` in `folder`, with `libnccl.so.2` as a link to it."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libcuda.so.1"
    words = [COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", *flags.split(), "-shared", "-fPIC"]
    subprocess.run([*words, "-o", str(library), str(HERE / source)], check=True)
    (folder / "libnccl.so.2").unlink(missing_ok=True)
    (folder / "libnccl.so.2").symlink_to(library.name)
    return folder


def run(program: Path, libraries: Path, module: Path, args: Mapping[str, Array], *, arch: str = "sm_90",
        options: Sequence[str] = (), ranks: Sequence[int] | None = None) -> Outcome:  # fmt: skip
    """Run a module with `mgx-run` on emulated GPUs: all ranks in one process, or one process for each of `ranks`."""
    loaded = load(module, runs=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(folder / "gpu", loaded, arch, len(ranks) if ranks else 1)
        words = [str(program), str(module), *options, *_files(folder, args)]
        environment = os.environ | {"LD_LIBRARY_PATH": str(libraries), "MGX_EMULATOR": str(folder / "gpu")}
        names = [b.name for b in loaded.outputs]
        lines = [
            [*words, *(_rank_options(r, folder) if ranks else []), *_outputs(folder, names, r)] for r in ranks or [0]
        ]
        outcomes = _all(lines, environment)
        server.join()
        results = {} if any(o.code for o in outcomes) else {name: _joined(folder, name, ranks or [0]) for name in names}
    worst = max(outcomes, key=lambda outcome: outcome.code)
    return Outcome(worst.code, worst.output, "".join(outcome.errors for outcome in outcomes), results, server)


def _rank_options(rank: int, folder: Path) -> list[str]:
    return ["--rank", str(rank), "--device", str(rank), "--meet", str(folder / "meet")]


def _all(lines: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[Outcome]:
    running = [
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for line in lines
    ]
    outputs = [process.communicate(timeout=600) for process in running]
    return [Outcome(process.returncode, out, err, {}) for process, (out, err) in zip(running, outputs, strict=True)]


def _files(folder: Path, args: Mapping[str, Array]) -> list[str]:
    words: list[str] = []
    for name, array in args.items():
        np.save(folder / f"in {name}.npy", array)
        words += ["--input", f"{name}={folder / f'in {name}.npy'}"]
    return words


def _outputs(folder: Path, names: Sequence[str], rank: int) -> list[str]:
    (folder / str(rank)).mkdir()
    return [word for name in names for word in ("--output", f"{name}={folder / str(rank) / f'{name}.npy'}")]


def _joined(folder: Path, name: str, ranks: Sequence[int]) -> Array:
    """Combine the results of all processes. A process writes zeros for the shards of other processes."""
    arrays = [np.load(folder / str(rank) / f"{name}.npy") for rank in ranks]
    content = np.bitwise_or.reduce([np.frombuffer(array.tobytes(), np.uint8) for array in arrays])
    return content.view(arrays[0].dtype).reshape(arrays[0].shape)
