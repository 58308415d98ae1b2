"""The kernels of programs as PTX, with operands and expected results."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meshgen import api
from meshgen.codegen.building.build import BuiltKernel, build_kernels, request_of
from meshgen.codegen.triton_source import KernelSource
from meshgen.commands.kernel_check import worst_error
from meshgen.emulator.parse import parse
from meshgen.emulator.program import Entry
from meshgen.errors import CodegenError
from meshgen.ir.graph import Graph
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.runtime.emulate import EmulatedKernel
from meshgen.runtime.launch import initial_results
from meshgen.runtime.module_file.manifest import Binary, Kernel, Param
from meshgen.runtime.random_arrays import random_operands
from meshgen.runtime.simulate import rank_handlers

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A kernel for one architecture, with operands, `expected` results and `bounds` of their errors.

    Bounds apply to each element.
    """

    name: str
    arch: str
    source: KernelSource
    built: BuiltKernel
    body: Graph
    coordinates: dict[tuple[str, ...], int]
    operands: list[Array]
    expected: list[Array]
    bounds: list[Array]

    @property
    def ptx(self) -> str:
        return self.built.ptx.decode()

    def run(self, ptx: str = "", *, races: bool = True) -> list[Array]:
        """Run `ptx`, by default the kernel's own PTX, on the emulated GPU. Raises DeviceFault."""
        return emulate(self.source, self.built, self.arch, self.body, self.operands, self.coordinates, ptx, races=races)

    def entry(self, ptx: str = "") -> Entry:
        """Return the parsed entry of `ptx`, by default of the kernel's own PTX."""
        return parse(ptx or self.ptx).entries[self.source.entry]

    @functools.cached_property
    def results(self) -> list[Array]:
        """The results of the kernel's own PTX."""
        return self.run(races=False)

    def excess(self, results: Sequence[Array]) -> float:
        """Return the largest error as a multiple of its bound. It is at most 1 if the results are correct."""
        worst = [worst_error(*arrays) for arrays in zip(results, self.expected, self.bounds, strict=True)]
        return max(
            (error / bound if bound else float(error > 0) * np.inf for error, bound in worst if error), default=0.0
        )


def emulate(source: KernelSource, built: BuiltKernel, arch: str, body: Graph, operands: Sequence[Array],
            coordinates: Mapping[tuple[str, ...], int], ptx: str = "", *, races: bool = True) -> list[Array]:  # fmt: skip
    """Run a kernel on the emulated GPU and return its results. If `ptx` is given, run it instead of the PTX of `built`.

    Raises:
        DeviceFault: the kernel faults.
    """
    results = initial_results(body, operands)
    values = {"operand": operands, "result": results, "coordinate": coordinates}
    args = [values[kind][index] for kind, index in source.params]
    kernel = EmulatedKernel(_launch(source, built, arch), arch, ptx or built.ptx.decode(), source.text)
    kernel.launch(args, [kind == "result" for kind, _ in source.params], races=races)
    return results


def _launch(source: KernelSource, built: BuiltKernel, arch: str) -> Kernel:
    """Return launch parameters, as the manifest of a module contains them."""
    grid = (*source.grid, 1, 1, 1)[:3]
    params = tuple(Param(k, axes=tuple(w)) if k == "coordinate" else Param(k, w) for k, w in source.params)
    binary = Binary("", built.regs, 0, 0, built.shared, built.threads, {}, built.metadata, "ptx")
    return Kernel(
        "kernel.py", source.entry, params, (int(grid[0]), int(grid[1]), int(grid[2])), binaries={arch: binary}
    )


def case_of(source: KernelSource, body: Graph, mesh: Mesh, arch: str, seed: Sequence[int] = (0,), operands: Sequence[Array] = ()) -> Case:  # fmt: skip
    """Build a generated kernel for an architecture; operands are random by default."""
    (built,) = build_kernels([request_of(body.name, source, body)], [arch]).values()
    rank = mesh.size - 1
    evaluator = Evaluator(rank_handlers(mesh, rank))
    inputs = list(operands) or random_operands(body, seed)
    expected = [np.asarray(array) for array in evaluator.graph(body, inputs)]
    bounds = [np.asarray(array) for array in error_bound(body, inputs, tf32=True, evaluator=evaluator)]
    coordinates = {ref: mesh.index(rank, ref) for kind, ref in source.params if kind == "coordinate"}
    return Case(body.name, arch, source, built, body, coordinates, inputs, expected, bounds)


def cases_of(path: Path, archs: Sequence[str], seed: int = 0) -> Iterator[Case]:
    """Yield a case for each distinct kernel of a program. Raises CodegenError if one cannot be generated."""
    for arch in archs:
        program = api.plan(str(path), target=f"cuda:{arch}")
        bodies = program.plan.kernels
        requests = [request_of(name, source, bodies[name]) for name, source in program.sources.items()]
        build_kernels(requests, [arch])  # builds all kernels in parallel, and caches them for `case_of`
        for number, (name, source) in enumerate(program.sources.items()):
            yield case_of(source, bodies[name], program.mesh, arch, [seed, number])


def say(text: str) -> None:
    """Print a line and flush standard output, so that a campaign shows its progress."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def programs_in(folder: Path, count: int) -> list[Path]:
    """Return the `count` shortest programs of a folder, shortest first."""
    return sorted(folder.glob("*.shardy.mlir"), key=lambda path: (path.stat().st_size, path.name))[:count]


__all__ = ["Case", "CodegenError", "case_of", "cases_of", "programs_in", "say"]
