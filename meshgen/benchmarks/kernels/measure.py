"""Kernels on one GPU: times with warm and cold caches, their share of what the device was measured to do, results beside PyTorch's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.benchmarks.kernels.baselines import Torch
from meshgen.benchmarks.nvml import Nvml
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.samples import summary
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.cost_model.kernels import Device as Sheet
from meshgen.ir.graph import Graph
from meshgen.ops.precision import multiplied_as, products_of
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.one_kernel import OneKernel
from meshgen.runtime.cuda.timing import EventTimer, Timer
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_array, random_operands

Array = np.ndarray[Any, Any]
WARM_UP, SAMPLES = 3, 30
COPIED = 1 << 30  # bytes: more than any L2 cache
SEED = 0  # of the random operands: the same in every run
TOLERANCE = 2e-2  # of the largest result, between two bf16 programs that add up in other orders
MOST_REFERENCE_FLOPS = 1 << 30  # of a program that NumPy computes where PyTorch is missing: about a second


@dataclass(frozen=True)
class Ceilings:
    """What a device does at best: bytes/s of a copy, and FLOP/s of a product of bf16; `source` says which were measured."""

    bytes_per_second: float
    flops_per_second: float
    source: str

    def seconds(self, body: Graph, flops: float, nbytes: float, sheet: Sheet) -> float:
        """Below which no kernel with these operations can be. Products of other types: by the ratio of the data sheet's peaks."""
        kinds = {multiplied_as(node) for node in products_of(body)} & set(sheet.peaks)
        rate = min((sheet.peaks[kind] / sheet.peaks["bf16"] for kind in kinds), default=0.0) * self.flops_per_second
        return max(nbytes / self.bytes_per_second, flops / rate if rate else 0.0)


@dataclass(frozen=True)
class Gpu:
    """Where kernels are measured.

    Attributes:
        timer_of: the timer of a device, for a kernel with this body.
        torch, nvml: None where they are missing.
        copied: bytes of the copy that is the ceiling of traffic.
    """

    api: Api
    timer_of: Callable[[Device, Graph], Timer]
    torch: Torch | None
    nvml: Nvml | None
    samples: int = SAMPLES
    copied: int = COPIED

    @property
    def arch(self) -> str:
        device = Device(self.api, 0)
        major, minor = device.capability
        device.close()
        return f"sm_{major}{minor}"

    def ceilings(self) -> Ceilings:
        """Measured now; FLOP/s are the data sheet's without PyTorch, and all of them on a device without times."""
        sheet, device, copied = device_of(self.arch), Device(self.api, 0), self.copied
        source, target = (device.allocate(copied, "a copy") for _ in range(2))
        device.clear(source, copied, device.streams[0])
        seconds = self._copy_seconds(device, target, source, copied)
        device.close()
        products = self.torch.product_seconds() if self.torch else None
        return Ceilings(
            2 * copied / seconds if seconds else sheet.bandwidth,
            products[0] / products[1] if products else sheet.peaks["bf16"],
            f"copy {'measured' if seconds else 'from the data sheet'}, product {'by cuBLAS' if products else 'from the data sheet'}",
        )

    def _copy_seconds(self, device: Device, target: int, source: int, nbytes: int) -> float:
        begin, end = (device.event(key, is_timed=True) for key in ("begin", "end"))
        found: list[float] = []
        for _ in range(WARM_UP + self.samples):
            self.api.cuda("cuEventRecord", begin, device.streams[0])
            device.copy(target, source, nbytes, device.streams[0])
            self.api.cuda("cuEventRecord", end, device.streams[0])
            self.api.cuda("cuEventSynchronize", end)
            found.append(float(self.api.cuda("cuEventElapsedTime", begin, end)) * 1e-3)
        return statistics.median(found[WARM_UP:])


def event_timer(device: Device, body: Graph) -> Timer:
    del body
    return EventTimer(device)


def measured(gpu: Gpu, module: LoadedModule, records: Sequence[Record], ceilings: Ceilings) -> list[Record]:
    """The records of a program's kernels with their times, and before them one of the whole program."""
    rows = [{**record, **_kernel(gpu, module, record, ceilings)} for record in records]
    program = {key: records[0][key] for key in ("suite", "program", "target")} | {"kernel": "(all)"}
    for key in ("launches", "flops", "bytes"):
        program[key] = sum(row[key] * (row["launches"] if key != "launches" else 1) for row in rows)
    if all("us" in row for row in rows):
        program |= {
            key: round(sum(row[key] * row["launches"] for row in rows), 3) for key in ("us", "least_us", "cold_us")
        }
        program |= {key: max(row[key] for row in rows) for key in ("spread", "cold_spread")}
        program["samples"] = gpu.samples
    if gpu.nvml:
        program |= gpu.nvml.clocks()
    return [program | _against(gpu, module, str(records[0]["program"]), program), *rows]


def _kernel(gpu: Gpu, module: LoadedModule, record: Record, ceilings: Ceilings) -> dict[str, Any]:
    """Times of a kernel on random values, none of them all zero. Raises RuntimeFailure MG0604, MG0608."""
    name = str(record["kernel"])
    body = module.schedule.kernels[name]
    operands = random_operands(body, [SEED])
    item = next(each for each in module.schedule.launches() if each.item.kernel == name)
    with OneKernel(gpu.api, module.mesh, item.plan, item.item, operands) as kernel:
        launch = kernel.launch(module.manifest.kernels[name], module.loaded.member)
        if launch is None:  # its grid is empty
            return {}
        warm, cold = _samples(gpu, gpu.timer_of(kernel.device, body), launch)
    times = summary(warm) | {key: value for key, value in summary(cold, "cold_").items() if key != "cold_least_us"}
    if not times["us"]:  # an emulated GPU has no times
        return {}
    least = ceilings.seconds(body, record["flops"], record["bytes"], device_of(str(record["target"])))
    return times | {"of_ceiling": round(least * 1e6 / times["us"], 4)}


def _samples(gpu: Gpu, timer: Timer, launch: Launch) -> tuple[list[float], list[float]]:
    found = [timer.seconds(launch) for _ in range(WARM_UP + gpu.samples)][WARM_UP:]
    return [each.warm for each in found], [each.cold for each in found]


def _against(gpu: Gpu, module: LoadedModule, name: str, program: Mapping[str, Any]) -> dict[str, Any]:
    """Time of PyTorch's function, eager or compiled, whichever is faster; and whether the results agree with it, or else with NumPy's."""
    if module.mesh.size > 1:
        return {}  # its inputs and results are those of all devices
    args = [random_array(binding.type, [SEED, number]) for number, binding in enumerate(module.inputs)]
    made = module.run(args, device="emulate" if gpu.api.machine else "cuda")
    found, wanted = gpu.torch.timed(name, args) if gpu.torch else ({}, None)
    if wanted is None and program["flops"] <= MOST_REFERENCE_FLOPS:
        wanted = module.run(args, device="reference")
    if wanted is None:
        return found
    pairs = zip(made, wanted, strict=True)
    return found | {"correct": all(_is_near(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs)}


def _is_near(made: Array, wanted: Array) -> bool:
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-30)
    return bool(np.abs(made - wanted).max(initial=0.0) <= TOLERANCE * scale)
