"""Cost model of kernels: the peaks of each device from its data sheet, and the share of them that kernels reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meshgen.cost_model.fields import chosen, known, required

_SHEET = "data sheets of NVIDIA A100 SXM, H100 SXM, H200 SXM and B200; dense operands"
_GUIDE = "CUDA C++ programming guide, table of technical specifications per compute capability"


@dataclass(frozen=True)
class Device:
    """A device model. Two models can have the same architecture, for example with different memory.

    Attributes:
        peaks: FLOP/s of a dot by number format: an element type, `tf32`, or `tf32x3` (`meshgen/ops/precision.py`).
        vector_flops: FLOP/s of f32 arithmetic outside of dots.
        bandwidth: bytes/s of device memory.
        launch_seconds: seconds from the end of one kernel to the start of the next kernel on a stream.
        l2_bandwidth: bytes/s that the L2 cache delivers to all multiprocessors.
        shared_bytes: largest shared memory of one block.
        arch: the architecture; empty if `name` is the architecture.
        product: the name under which the device is sold.
    """

    name: str
    peaks: Mapping[str, float] = required(
        "FLOP/s",
        "peak rate of dots by the number format that is multiplied",
        f"{_SHEET}; tf32x3: three multiplications in tf32",
    )
    vector_flops: float = required("FLOP/s", "peak rate of f32 arithmetic outside of dots", _SHEET)
    bandwidth: float = required("bytes/s", "device memory bandwidth", _SHEET)
    launch_seconds: float = required(
        "s",
        "time from the end of a kernel to the start of the next on a stream",
        "chosen; `meshgen bench launch` measures the host's part of a launch",
    )
    multiprocessors: int = required("count", "number of multiprocessors", _SHEET)
    shared_bytes: int = required("bytes", "largest shared memory of one block", _GUIDE)
    l2_bandwidth: float = required(
        "bytes/s", "rate from the L2 cache to all multiprocessors",
        "NVIDIA A100 Tensor Core GPU architecture: 5,120 bytes per clock; derived: times the boost clock, on a B200 from each of two dies",
    )  # fmt: skip
    arch: str = ""  # the architecture, or "" if `name` is the architecture
    product: str = ""

    @property
    def architecture(self) -> str:
        return self.arch or self.name


_SM_80 = Device(
    "sm_80", {"bf16": 312e12, "f16": 312e12, "tf32": 156e12, "tf32x3": 156e12 / 3, "f32": 19.5e12, "f64": 19.5e12, "i8": 624e12},
    19.5e12, 2.0e12, 2.5e-6, 108, 166912, 7.2e12, product="A100",
)  # fmt: skip
_SM_90 = Device(
    "sm_90", {"bf16": 989e12, "f16": 989e12, "tf32": 494.5e12, "tf32x3": 494.5e12 / 3, "f32": 67e12, "f64": 67e12, "i8": 1979e12,
              "f8E4M3FN": 1979e12, "f8E5M2": 1979e12},
    67e12, 4.8e12, 2.0e-6, 132, 232448, 9.0e12, product="H200",
)  # fmt: skip
_SM_100 = Device(
    "sm_100", {"bf16": 2250e12, "f16": 2250e12, "tf32": 1125e12, "tf32x3": 1125e12 / 3, "f32": 75e12, "f64": 37e12, "i8": 4500e12,
               "f8E4M3FN": 4500e12, "f8E5M2": 4500e12},
    75e12, 8.0e12, 2.0e-6, 148, 232448, 18.0e12, product="B200",
)  # fmt: skip
_H100 = replace(_SM_90, name="h100", bandwidth=3.35e12, arch="sm_90", product="H100")


@dataclass(frozen=True, eq=False)
class Kernels:
    """Parameters of the roofline model of generated kernels."""

    efficiency: float = chosen(0.75, "share", "share of a device's peaks that kernels reach", matters=True)
    integer_share: float = known(
        0.5,
        "share",
        "rate of arithmetic in other types outside of dots, relative to f32",
        "CUDA C++ programming guide, throughput of arithmetic instructions: 64 of 128 results per clock on an H100",
    )
    main_loop_share: float = known(
        0.7, "share", "share of the peak rate that the main loop of a large GEMM sustains if its operands arrive in time",
        "fit to published measurements on an H100 (`python -m bench.products`)",
    )  # fmt: skip
    start_seconds: float = known(
        7e-7, "s", "time from the end of a tile to the first MMA of the next tile on the same multiprocessor",
        "fit to published measurements on an H100 (`python -m bench.products`)",
    )  # fmt: skip
    copy_seconds: float = known(
        5.5e-7, "s", "latency of a copy from device memory to shared memory",
        "Luo et al. 2024, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture: 479 cycles without load; derived: twice that",
    )  # fmt: skip
    multiprocessor_bandwidth: float = known(
        1.1e11, "bytes/s", "largest read rate of one multiprocessor, however few others read",
        "derived: 64 bytes per clock from the L2 cache, at the boost clock of an H100",
    )  # fmt: skip
    unaligned_share: float = known(
        0.9, "share", "share by which a GEMM takes longer if the rows of an operand do not begin at multiples of 16 bytes",
        "derived: a tile's loads and stores of 2 bytes take 1,536 clocks per step of 128 x 256 x 64, its MMAs 1,024, its latency 960; for two operands",
    )  # fmt: skip
    transposed_share: float = known(
        0.8, "share", "share by which a GEMM takes longer if 8-bit elements are transposed in its main loop",
        "derived: 265 instructions of a warp instead of 138 in the loop, without concurrent MMAs (`tests/codegen/test_dot_instructions.py`)",
    )  # fmt: skip
    threads: int = known(2048, "threads", "most resident threads of a multiprocessor", _GUIDE)
    trips_ahead: int = known(
        3, "trips", "iterations of a recurrence whose rows are prefetched", "derived: Triton's pipeline of four stages has four buffers, one of which is in use"
    )  # fmt: skip
    devices: tuple[Device, ...] = (_SM_80, _SM_90, _SM_100, _H100)
