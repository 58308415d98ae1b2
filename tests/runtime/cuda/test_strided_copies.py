"""Tests of copies of strided boxes and of reductions on one device.

Their PTX runs on an emulated GPU and must match NumPy, and ptxas must accept it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import triton

from meshgen.ccl.host import HostBuffers
from meshgen.ccl.simulated import reduce_arrays
from meshgen.ccl.steps import OPERAND, RESULT, Box, Copy, Lowered, Reduce, dense
from meshgen.errors import MissingError
from meshgen.ir.graph import DTYPES
from meshgen.kernels.copy_ptx import PtxKernel, copy_kernel
from meshgen.kernels.reduce_ptx import reduce_kernel
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.collectives import RankWork
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.strided_copies import Run, copies

Array = np.ndarray[Any, Any]
PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


def on_device(lowered: Lowered, operands: list[Array], result: Array) -> Array:
    """Run the steps on an emulated GPU with race checks and return the result array."""
    device = Device(emulated(1, "sm_80", races=True), 0)
    arrays = [*operands, result]
    addresses = [device.allocate(array.nbytes, f"array {n}") for n, array in enumerate(arrays)]
    for address, array in zip(addresses, arrays, strict=True):
        device.upload(address, array)
    work = RankWork(device, device.streams[0], lowered, lambda ref: addresses[-1 if ref == RESULT else ref.number])
    for step in lowered.steps:
        work.copy(step) if isinstance(step, Copy) else work.reduce(step)
    device.api.cuda("cuStreamSynchronize", device.streams[0])
    return device.download(addresses[-1], np.empty_like(result))


def random_boxes(rng: np.random.Generator, dtype: str) -> tuple[Box, Box]:
    """Return two boxes of one random shape with up to five dims, inside arrays of different sizes."""
    rank = int(rng.integers(0, 6))
    shape = rng.integers(1, 5, rank)
    boxes = []
    for buffer in (OPERAND, RESULT):
        outer_shape = shape + rng.integers(0, 3, rank)
        start = [int(rng.integers(0, free + 1)) for free in outer_shape - shape]
        ranges = [(s, s + int(n)) for s, n in zip(start, shape, strict=True)]
        boxes.append(dense(buffer, dtype, tuple(map(int, outer_shape))).part(ranges))
    return boxes[0], boxes[1]


@pytest.mark.parametrize("seed", range(40))
def test_box_copy_matches_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = ["i8", "bf16", "f32", "f64", "c128"][seed % 5]
    source, target = random_boxes(rng, dtype)
    operand = rng.integers(0, 256, max(source.byte_end, 16), np.uint8)
    result = rng.integers(0, 256, max(target.byte_end, 16), np.uint8)
    want = result.copy()
    step = Copy(source, target)
    HostBuffers({OPERAND: operand, RESULT: want}).copy(step)
    assert (on_device(Lowered((step,), 0), [operand], result) == want).all()


def test_contiguous_copy_is_one_run_and_rows_use_wide_words() -> None:
    whole, rows = dense(OPERAND, "bf16", (4, 64)), dense(OPERAND, "bf16", (4, 80)).part([(0, 4), (0, 64)])
    assert list(copies(whole, whole, 0, 4096)) == [Run(0, 4096, 512)]
    (call,) = copies(whole, rows, 0, 4096)
    assert call.itemsize == 16 and call.values[2] == 32  # 256 elements of two bytes are 32 chunks of 16 bytes
    (odd,) = copies(whole, rows, 0, 4098)
    assert odd.itemsize == 2 and odd.values[2] == 256


REDUCTIONS = [
    *((kind, dtype, dtype) for kind in ("sum", "product", "max", "min") for dtype in ("f32", "bf16", "f16", "f64", "i32", "ui8", "i64", "i16")),
    *((kind, dtype, dtype) for kind in ("and", "or", "xor") for dtype in ("i32", "ui64", "i8", "i1")),
    *(("sum", source, target) for source, target in (("bf16", "f32"), ("f32", "bf16"), ("f16", "f64"), ("f64", "f16"))),
    ("xor", "i1", "i1"), ("sum", "i1", "i1"), ("min", "i1", "i1"),
    *((kind, dtype, dtype) for kind in ("sum", "product") for dtype in ("c64", "c128")),
]  # fmt: skip


def operands_of(dtype: str, count: int, size: int) -> list[Array]:
    rng, kind = np.random.default_rng(7), DTYPES[dtype]
    if dtype in ("f16", "bf16", "f32", "f64"):
        operands = [(rng.standard_normal(size) * 4).astype(kind) for _ in range(count)]
        operands[1][3] = np.nan
        return operands
    # products of small integers are exact, while NumPy may round complex products one time less
    if dtype in ("c64", "c128"):
        parts = rng.integers(-5, 6, (count, 2, size))
        return [(real + 1j * imaginary).astype(kind) for real, imaginary in parts]
    return [rng.integers(0, 2 if dtype == "i1" else 120, size).astype(kind) for _ in range(count)]


@pytest.mark.parametrize("kind, source, target", REDUCTIONS)
def test_reduction_kernel_matches_reference_bitwise(kind: str, source: str, target: str) -> None:
    arrays = operands_of(source, 3, 300)
    boxes = tuple(dense(OPERAND._replace(number=n), source, (300,)) for n in range(3))
    step = Reduce(boxes, dense(RESULT, target, (300,)), kind)
    result = on_device(Lowered((step,), 0), arrays, np.zeros(300, DTYPES[target]))
    want = reduce_arrays(arrays, kind, target)
    assert result.dtype == want.dtype
    nan = (
        np.isnan(want.astype(np.float64))
        if want.dtype.kind in "fV" or want.dtype == ml_dtypes.bfloat16
        else np.zeros(300, bool)
    )
    assert result[~nan].tobytes() == want[~nan].tobytes()
    assert np.isnan(result[nan]).all()


@pytest.mark.parametrize(
    "kind, source, target",
    [("sum", "f8E4M3FN", "f8E4M3FN"), ("product", "c64", "c128"), ("max", "c64", "c64"), ("xor", "f32", "f32")],
)
def test_reduction_without_kernel_is_rejected(kind: str, source: str, target: str) -> None:
    with pytest.raises(MissingError, match=f"MG0602: no kernel reduces {source} to {target} by {kind}"):
        reduce_kernel(kind, source, target, 2)


@pytest.mark.parametrize(
    "kernel", [*map(copy_kernel, (1, 2, 4, 8, 16)), *(reduce_kernel(*r, 3) for r in REDUCTIONS)], ids=lambda k: k.name
)
def test_ptxas_accepts_copy_and_reduction_kernels(kernel: PtxKernel, tmp_path: Path) -> None:
    file = tmp_path / "kernel.ptx"
    file.write_text(kernel.text)
    outcome = subprocess.run(
        [PTXAS, "-arch=sm_90", str(file), "-o", str(tmp_path / "out")], capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr + outcome.stdout
