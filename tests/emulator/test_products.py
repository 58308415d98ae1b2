"""Tests of matrix units: GEMMs of every dtype on three architectures, and kernels with TMA copies."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.launch import Checks, launch
from meshgen.emulator.memory import Memory
from meshgen.emulator.parse import parse
from meshgen.emulator.tensor_map import TensorMap, decode, encode

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from tests.emulator import dot_kernels  # noqa: E402
from tests.emulator.snippets import run  # noqa: E402

TYPES = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "i8": np.int8, "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5": ml_dtypes.float8_e5m2, "fp64": np.float64,
}  # fmt: skip
SUMS = {"fp32": (tl.float32, np.float32), "i32": (tl.int32, np.int32), "fp64": (tl.float64, np.float64), "fp16": (tl.float16, np.float16)}  # fmt: skip


def compiled(function: Any, signature: dict[str, str], constants: dict[str, Any], arch: int, warps: int = 4) -> Any:
    hints = {(n,): [["tt.divisibility", 16]] for n, kind in enumerate(signature.values()) if kind[0] in "*i"}
    source = ASTSource(function, signature | dict.fromkeys(constants, "constexpr"), constexprs=constants, attrs=hints)
    return triton.compile(
        source,
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": warps, "num_stages": 3, "enable_fp_fusion": True},
    )


class Device:
    """Device memory that contains arrays, and the ranges of it that a launch may access."""

    def __init__(self) -> None:
        self.memory = Memory(1 << 28)
        self.ranges: list[tuple[int, int, bool]] = []

    def put(self, array: np.ndarray, *, writable: bool = False) -> int:
        address = self.memory.allocate(array.nbytes)
        self.memory.view(address, array.nbytes)[:] = array.reshape(-1).view(np.uint8)
        self.ranges.append((address, array.nbytes, writable))
        return address

    def launch(self, built: Any, ptx: str, grid: tuple[int, int, int], values: list[int | bytes]) -> None:
        entry = parse(ptx).entries[built.metadata.name]
        block = b""
        for parameter, value in zip(entry.parameters, values, strict=True):
            content = value if isinstance(value, bytes) else value.to_bytes(parameter.size, "little")
            block = block.ljust(parameter.offset, b"\0") + content
        checks = Checks(races=True, operands=self.ranges)
        threads = built.metadata.num_warps * 32
        launch(entry, grid, (threads, 1, 1), built.metadata.shared, block, self.memory, checks=checks)

    def get(self, address: int, like: np.ndarray) -> np.ndarray:
        return self.memory.view(address, like.nbytes).view(like.dtype).reshape(like.shape)


def random(rng: np.random.Generator, kind: Any, *shape: int) -> np.ndarray:
    if kind is np.int8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(kind)


PRODUCTS = [
    *[(arch, kind, "tf32", "") for arch in (80, 89, 90) for kind in TYPES if kind != "fp8e4nv" or arch > 80],
    (90, "fp32", "ieee", ""), (80, "fp32", "tf32x3", ""), (90, "fp32", "tf32x3", ""), (80, "fp16", "ieee", "fp16"), (90, "fp16", "ieee", "fp16"),
]  # fmt: skip
UNITS = {80: r"mma\.sync", 89: r"mma\.sync", 90: r"wgmma\.mma_async"}


@pytest.mark.parametrize(("arch", "kind", "precision", "sums"), PRODUCTS)
def test_gemm_of_every_dtype_is_within_error_bound(arch: int, kind: str, precision: str, sums: str) -> None:
    """The bound is that of exact products summed in the accumulator type. tf32 keeps 10 mantissa bits, tf32x3 keeps 21."""
    m = n = k = 64
    sums = sums or {"i8": "i32", "fp64": "fp64"}.get(kind, "fp32")
    transposed = arch == 90 and kind in ("i8", "fp8e4nv", "fp8e5")
    signature = {"a_ptr": f"*{kind}", "b_ptr": f"*{kind}", "c_ptr": f"*{sums}", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 64, "BN": 32, "BK": 32, "PRECISION": precision, "SUMS": SUMS[sums][0], "TRANSPOSED": transposed}
    built = compiled(dot_kernels.pointers, signature, constants, arch)
    rng, device = np.random.default_rng(5), Device()
    a, b, c = random(rng, TYPES[kind], m, k), random(rng, TYPES[kind], k, n), np.zeros((m, n), SUMS[sums][1])
    stored = np.ascontiguousarray(b.T) if transposed else b
    addresses = [device.put(a), device.put(stored), device.put(c, writable=True)]
    device.launch(built, built.asm["ptx"], (m // 64, n // 32, 1), [*addresses, m, n, k, 0, 0])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    unit = {"i32": 0.0, "fp64": 2.0**-52, "fp16": 2.0**-10}.get(sums, 2.0**-23) * k
    unit += {"tf32": 2.0**-9, "tf32x3": 3 * 2.0**-22}.get(precision, 0.0) if kind == "fp32" else 0
    assert (np.abs(device.get(addresses[2], c) - exact) <= unit * size).all()
    if kind not in ("fp64",) and precision != "ieee":
        assert re.search(UNITS[arch], built.asm["ptx"])


@pytest.mark.parametrize("arch", [80, 90])
def test_tf32_truncates_low_mantissa_bits(arch: int) -> None:
    """Triton passes f32 operands unchanged, and matrix units ignore the 13 low bits. This truncates toward zero."""
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32") | dict.fromkeys("MNK", "i32")
    constants = {"BM": 64, "BN": 32, "BK": 32, "PRECISION": "tf32", "SUMS": tl.float32, "TRANSPOSED": False}
    built = compiled(dot_kernels.pointers, signature, constants, arch)
    truncated = {1: 1, 1 + 3 * 2**-11: 1 + 2**-10, 1 + 2**-10 - 2**-23: 1, -1 - 2**-11: -1, 2**-126 + 2**-148: 2**-126,
            2**-137: 0, 3: 3, 2**127: 2**127}  # fmt: skip
    device, a, c = Device(), np.zeros((64, 32), np.float32), np.zeros((64, 32), np.float32)
    a[:, :8], b = list(truncated), np.eye(32, dtype=np.float32)
    addresses = [device.put(a), device.put(b), device.put(c, writable=True)]
    device.launch(built, built.asm["ptx"], (1, 1, 1), [*addresses, 64, 32, 32, 0, 0])
    np.testing.assert_array_equal(
        device.get(addresses[2], c)[:, :8], np.broadcast_to(list(truncated.values()), (64, 8))
    )


SHAPES = [
    (256, 128, 192),
    (200, 136, 320),
]  # The second shape is not a multiple of the tile sizes: out-of-bounds elements are read as zero and not written.


def boxes(specialized: bool, warps: int = 4) -> Any:
    signature = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 128, "BN": 64, "BK": 64, "SPECIALIZED": specialized}
    return compiled(dot_kernels.descriptors, signature, constants, 90, warps)


def operands(device: Device, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    rng = np.random.default_rng(6)
    a, b, c = (random(rng, ml_dtypes.bfloat16, *shape) for shape in ((m, k), (k, n), (m, n)))
    return a, b, c, [device.put(a), device.put(b), device.put(c, writable=True)]


def multiply(built: Any, ptx: str, m: int, n: int, k: int) -> None:
    """Run a GEMM kernel that builds its descriptors in scratch memory, and check its results."""
    device = Device()
    a, b, c, addresses = operands(device, m, n, k)
    grid = (-(-m // 128), -(-n // 64), 1)
    scratch = np.zeros(grid[0] * grid[1] * built.metadata.global_scratch_size, np.uint8)
    values = [*addresses, m, n, k, device.put(scratch, writable=True), 0]
    device.launch(built, ptx, grid, values)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (np.abs(device.get(addresses[2], c).astype(np.float64) - exact) <= 2.0**-7 * np.abs(exact) + 1e-3).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("specialized", [False, True])
def test_gemm_with_tma_copies_is_correct(specialized: bool, shape: tuple[int, int, int]) -> None:
    """Warp-specialized kernels have warps that only copy, and others that only multiply."""
    built = boxes(specialized)
    assert "cp.async.bulk.tensor" in built.asm["ptx"] and ("setmaxnreg" in built.asm["ptx"]) == specialized
    multiply(built, built.asm["ptx"], *shape)


DROPPED = [
    (r"\n[^\n]*fence\.proxy\.async[^\n]*", "race"), (r"\n[^\n]*wgmma\.wait_group[^\n]*", "async copy"),
    (r"\n[^\n]*mbarrier\.arrive\.expect_tx[^\n]*", "barrier"), (r"\n[^\n]*mbarrier\.try_wait[^\n]*\n[^\n]*bra\.uni waitLoop[^\n]*", "async copy"),
    (r"\n[^\n]*cp\.async\.bulk\.tensor\.2d\.shared[^\n]*", "barrier"), (r"\n[^\n]*mbarrier\.init[^\n]*", "barrier"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "kind"), DROPPED)
def test_dropped_tma_synchronization_is_detected(pattern: str, kind: str) -> None:
    built = boxes(False)
    text = re.sub(pattern, "", built.asm["ptx"])
    assert text != built.asm["ptx"]
    with pytest.raises(DeviceFault) as caught:
        multiply(built, text, *SHAPES[1])
    assert caught.value.kind == kind, str(caught.value)


def test_tma_descriptors_may_be_kernel_parameters() -> None:
    """The test encodes descriptors like a driver. The kernel also takes the shape and strides of each descriptor."""
    signature = {
        "a": "tensordesc<bf16[128, 64]>",
        "b": "tensordesc<bf16[64, 64]>",
        "c": "tensordesc<bf16[128, 64]>",
        "K": "i32",
    }
    built = compiled(dot_kernels.parameters, signature, {"BM": 128, "BN": 64, "BK": 64}, 90)
    m, n, k = SHAPES[1]
    device = Device()
    a, b, c, addresses = operands(device, m, n, k)
    values: list[int | bytes] = []
    for address, (rows, columns), box in zip(
        addresses, ((m, k), (k, n), (m, n)), ((64, 128), (64, 64), (64, 128)), strict=True
    ):
        tensor_map = TensorMap(address, 10, box, (columns, rows), (2 * columns,), swizzle=3)
        assert decode(encode(tensor_map)) == tensor_map
        values += [encode(tensor_map), rows, columns, columns, 1]
    device.launch(built, built.asm["ptx"], (2, 3, 1), [*values, k, 0, 0])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (np.abs(device.get(addresses[2], c).astype(np.float64) - exact) <= 2.0**-7 * np.abs(exact) + 1e-3).all()


def test_accumulators_changed_between_mma_are_used() -> None:
    """The emulator reuses the accumulators of the previous mma unless some thread has changed one of their registers."""
    product = (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r9, %r9, %r9, %r9}, {%r9, %r9}, "
        "{%r0, %r1, %r2, %r3};"
    )
    zeros = "\n".join(f"mov.b32 %r{n}, 0;" for n in range(4))
    stores = "\n".join(f"st.global.b32 [%rd1+{4 * n}], %r{n};" for n in range(4))
    body = f"""{zeros}
        mov.b32 %r9, 0x3C003C00;
        {product}
        {product}
        add.f32 %r2, %r2, 0f3F800000;
        setp.lt.s32 %p1, %r61, 16;
        @%p1 add.f32 %r1, %r1, 0f40000000;
        {product}
        mul.wide.s32 %rd1, %r62, 16;
        add.s64 %rd1, %rd1, %rd50;
        {stores}"""
    (result,) = run(body, np.zeros((64, 4), np.float32), blocks=2)
    expected = np.full((64, 4), 48, np.float32) + [0, 0, 1, 0]
    expected[np.arange(64) % 32 < 16, 1] += 2
    np.testing.assert_array_equal(result, expected)
