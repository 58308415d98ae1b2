"""Small modules whose kernels have candidate tiles, and fake timers whose times are a function of the launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import meshgen as mg
from meshgen.codegen.tuning.tuner import Bench
from meshgen.ir.graph import Graph
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.timing import Timing
from meshgen.runtime.module_file.container import Container

# Two GEMMs; the second is the larger one.
PRODUCTS = """func.func @main(%a: tensor<80x64xbf16>, %b: tensor<64x96xbf16>, %c: tensor<96x128xbf16>) -> tensor<80x128xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<80x64xbf16>, tensor<64x96xbf16>) -> tensor<80x96xbf16>
  %1 = stablehlo.dot_general %0, %c, contracting_dims = [1] x [0] : (tensor<80x96xbf16>, tensor<96x128xbf16>) -> tensor<80x128xbf16>
  %2 = stablehlo.tanh %1 : tensor<80x128xbf16>
  return %2 : tensor<80x128xbf16>
}
"""
MESH = {"x": 1}


class Function:
    """A timer that returns `times(launch)`. The list `launches` records the grid size of each timed launch."""

    def __init__(self, times: Callable[[Launch], float]) -> None:
        self._times = times
        self.launches: list[int] = []

    def seconds(self, launch: Launch) -> Timing:
        self.launches.append(launch.grid[0])
        warm = self._times(launch)
        return Timing(warm, 2 * warm)


def by_programs(launch: Launch) -> float:
    """Return a time that is proportional to the number of programs."""
    return launch.grid[0] * 1e-3


def bench(times: Callable[[Launch], float] = by_programs, **options: object) -> tuple[Bench, Function]:
    """Return a bench on an emulated GPU with a fake timer, and the timer."""
    timer = Function(times)

    def timer_of(device: Device, body: Graph) -> Function:
        del device, body
        return timer

    settings: dict[str, object] = {"candidates": 4, "rounds": 3} | options
    return Bench(emulated(1, "sm_90"), timer_of, **settings), timer  # type: ignore[arg-type]


def compiled(path: Path, text: str = PRODUCTS, target: str = "cuda:sm_90", **options: object) -> Container:
    mg.compile(text, options.pop("mesh", MESH), target=target, **options).save(path)  # type: ignore[arg-type]
    return Container(path)
