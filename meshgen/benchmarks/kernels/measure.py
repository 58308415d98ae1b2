"""Measurements of kernels on one GPU: times with warm and cold caches, the fraction of the device's measured peak, and
a comparison of results with PyTorch.
"""

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
from meshgen.ops.precision import matmuls_of, multiplied_as
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.kernel_runner import OneKernel
from meshgen.runtime.cuda.timing import EventTimer, Timer
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_array, random_operands

Array = np.ndarray[Any, Any]
WARM_UP, SAMPLES = 3, 30  # number of launches before the samples, and of samples (chosen: medians of 30 vary little)
COPIED = 1 << 30  # bytes of the copy that measures the rate of device memory; more than any L2 cache holds
SEED = 0  # seed of the random operands, the same in every run
# allowed error relative to the largest result (chosen: two bf16 programs that add in different orders agree within it)
TOLERANCE = 2e-2
# Largest number of operations of a program whose reference NumPy computes if PyTorch is missing (chosen: takes about a
# second).
MOST_REFERENCE_FLOPS = 1 << 30


@dataclass(frozen=True)
class Ceilings:
    """The peak rates of a device: bytes/s of a copy, and FLOP/s of a bf16 GEMM. `source` says which of them were
    measured.
    """

    bytes_per_second: float
    flops_per_second: float
    source: str

    def seconds(self, body: Graph, flops: float, nbytes: float, sheet: Sheet) -> float:
        """Return the least seconds of a kernel with `flops` operations and `nbytes` bytes of traffic, at the peak
        rates.

        GEMMs of other types than bf16 are scaled by the ratio of the peaks in the data sheet.
        """
        operand_types = {multiplied_as(node) for node in matmuls_of(body)} & set(sheet.peaks)
        rate = (
            min((sheet.peaks[operand_type] / sheet.peaks["bf16"] for operand_type in operand_types), default=0.0)
            * self.flops_per_second
        )
        return max(nbytes / self.bytes_per_second, flops / rate if rate else 0.0)


@dataclass(frozen=True)
class Gpu:
    """The device that measures kernels.

    Attributes:
        timer_of: function that creates the timer of a device for a kernel body.
        torch, nvml: PyTorch and NVML; None if they are missing.
        samples: number of samples of each kernel.
        copied: bytes of the copy that measures the memory rate.
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
        """Measure the peak rates of the device.

        Without PyTorch, the FLOP/s are those of the data sheet. On an emulated device, which has no times, both rates
        are.
        """
        sheet, device, copied = device_of(self.arch), Device(self.api, 0), self.copied
        source, target = (device.allocate(copied, "a copy") for _ in range(2))
        device.clear(source, copied, device.streams[0])
        seconds = self._copy_seconds(device, target, source, copied)
        device.close()
        flops_and_seconds = self.torch.gemm_flops_and_seconds() if self.torch else None
        return Ceilings(
            2 * copied / seconds if seconds else sheet.bandwidth,
            flops_and_seconds[0] / flops_and_seconds[1] if flops_and_seconds else sheet.peaks["bf16"],
            f"copy {'measured' if seconds else 'from the data sheet'}, GEMM {'by cuBLAS' if flops_and_seconds else 'from the data sheet'}",
        )

    def _copy_seconds(self, device: Device, target: int, source: int, nbytes: int) -> float:
        begin, end = (device.event(key, is_timed=True) for key in ("begin", "end"))
        samples: list[float] = []
        for _ in range(WARM_UP + self.samples):
            self.api.cuda("cuEventRecord", begin, device.streams[0])
            device.copy(target, source, nbytes, device.streams[0])
            self.api.cuda("cuEventRecord", end, device.streams[0])
            self.api.cuda("cuEventSynchronize", end)
            samples.append(float(self.api.cuda("cuEventElapsedTime", begin, end)) * 1e-3)
        return statistics.median(samples[WARM_UP:])


def event_timer(device: Device, body: Graph) -> Timer:
    del body
    return EventTimer(device)


def measure_program(gpu: Gpu, module: LoadedModule, records: Sequence[Record], ceilings: Ceilings) -> list[Record]:
    """Return the records of a program's kernels with their times, after one record for the whole program."""
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
    """Measure a kernel on random operands, no operand all zero. Raises RuntimeFailure MG0604, MG0608."""
    name = str(record["kernel"])
    body = module.schedule.kernels[name]
    operands = random_operands(body, [SEED])
    item = next(candidate for candidate in module.schedule.launches() if candidate.item.kernel == name)
    with OneKernel(gpu.api, module.mesh, item.plan, item.item, operands) as kernel:
        launch = kernel.launch(module.manifest.kernels[name], module.loaded.member)
        if launch is None:  # launch is None if the grid of the kernel is empty
            return {}
        warm, cold = _samples(gpu, gpu.timer_of(kernel.device, body), launch)
    times = summary(warm) | {key: value for key, value in summary(cold, "cold_").items() if key != "cold_least_us"}
    if not times["us"]:  # no time: an emulated GPU measures none
        return {}
    ceiling_seconds = ceilings.seconds(body, record["flops"], record["bytes"], device_of(str(record["target"])))
    return times | {"of_ceiling": round(ceiling_seconds * 1e6 / times["us"], 4)}


def _samples(gpu: Gpu, timer: Timer, launch: Launch) -> tuple[list[float], list[float]]:
    samples = [timer.seconds(launch) for _ in range(WARM_UP + gpu.samples)][WARM_UP:]
    return [sample.warm for sample in samples], [sample.cold for sample in samples]


def _against(gpu: Gpu, module: LoadedModule, name: str, program: Mapping[str, Any]) -> dict[str, Any]:
    """Compare a program with PyTorch: the time of its faster function (eager or compiled), and whether the results
    agree.

    Without PyTorch, the results are compared with NumPy's.
    """
    if module.mesh.size > 1:
        return {}  # not compared: the module has several devices, whose inputs and results it distributes
    args = [random_array(binding.type, [SEED, index]) for index, binding in enumerate(module.inputs)]
    results = module.run(args, device="emulate" if gpu.api.machine else "cuda")
    baseline_record, expected = gpu.torch.timed(name, args) if gpu.torch else ({}, None)
    if expected is None and program["flops"] <= MOST_REFERENCE_FLOPS:
        expected = module.run(args, device="reference")
    if expected is None:
        return baseline_record
    pairs = zip(results, expected, strict=True)
    return baseline_record | {
        "correct": all(_is_near(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs)
    }


def _is_near(result: Array, expected: Array) -> bool:
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-30)
    return bool(np.abs(result - expected).max(initial=0.0) <= TOLERANCE * scale)
