"""Tests of the machine code of GEMMs on sm_90: warp-group tensor cores, operands copied asynchronously, no spills."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from bodies import ONE, Body

from meshgen import api
from meshgen.codegen.building.build import BuiltKernel
from meshgen.codegen.building.candidates import build_best, missing, supports_tensor_cores
from meshgen.codegen.triton_source import kernel_sources
from meshgen.ir.graph import Graph
from meshgen.kernels.matmul import TMA_K
from meshgen.mesh import Mesh
from meshgen.ops.dot_dims import gemm_extents
from meshgen.ops.flops import graph_flops

triton = pytest.importorskip("triton")
BLOCK = Path(__file__).parents[2] / "examples" / "transformer_block.mlir"
ARCH = "sm_90"


class Built(NamedTuple):
    kernel: BuiltKernel
    body: Graph
    flops: float


def product(
    m: int, n: int, k: int, dtype: str = "bf16", result: str = "bf16", *, rows: bool = False, columns: bool = False
) -> Graph:
    """Return x @ w. `rows` transposes the layout of w, `columns` that of x."""
    left, right = f"{k},{m}" if columns else f"{m},{k}", f"{n},{k}" if rows else f"{k},{n}"
    b = Body(f"{dtype}[{left}]", f"{dtype}[{right}]", name="product")
    x, w = b.inputs
    return b.done(b.dot(x, w, ((0 if columns else 1,), (1 if rows else 0,)), dtype=result))


def layer(m: int, n: int, k: int) -> Graph:
    b = Body(f"bf16[{m},{k}]", f"bf16[{k},{n}]", f"bf16[{n}]", f"bf16[{m},{n}]", name="layer")
    x, w, bias, residual = b.inputs
    y = b.dot(x, w, ((1,), (0,)))
    return b.done(b.op("add", b.op("tanh", b.op("add", y, b.wide(bias, y, (1,)))), residual))


def gated(m: int, n: int, k: int) -> Graph:
    b = Body(f"bf16[{m},{k}]", f"bf16[{k},{n}]", f"bf16[{k},{n}]", name="gated")
    x, *weights = b.inputs
    gate, up = (b.dot(x, w, ((1,), (0,))) for w in weights)
    return b.done(b.op("multiply", b.op("logistic", gate), up))


BODIES = {
    "f32_results": product(8192, 8192, 8192, result="f32"), "gated": gated(8192, 4096, 4096),
    "large": product(8192, 8192, 8192), "small": product(512, 512, 1024), "few_rows": product(16, 8192, 8192), "one_row": product(1, 4096, 4096),
    "large_rows": product(8192, 8192, 8192, rows=True), "large_columns": product(8192, 8192, 8192, columns=True),
    "uneven": product(1000, 1000, 1000), "layer": layer(8192, 4096, 4096), "f16": product(2048, 2048, 2048, "f16", "f16"),
    "f8": product(4096, 4096, 4096, "f8E4M3FN", "f32"), "f8_rows": product(4096, 4096, 4096, "f8E4M3FN", "f32", rows=True),
    "i8": product(4096, 4096, 4096, "i8", "i32"), "f8_narrow": product(4096, 4096, 4096, "f8E4M3FN", "bf16", rows=True),
    "i8_rows": product(4096, 4096, 4096, "i8", "i32", rows=True),
}  # fmt: skip


@cache
def built() -> dict[str, Built]:
    """Build the GEMMs of the example block and of `BODIES`, with the FLOPs of a step."""
    plan = api.plan(str(BLOCK), target=f"cuda:{ARCH}")
    counts = plan.plan.launch_counts()
    block = {name: body for name, body in plan.plan.kernels.items() if supports_tensor_cores(body)}
    assert block
    kernels = _best(block, plan.fused.mesh) | _best(BODIES, ONE)
    bodies = block | BODIES
    return {name: Built(kernels[name], body, graph_flops(body) * counts.get(name, 1)) for name, body in bodies.items()}


def _best(bodies: dict[str, Graph], mesh: Mesh) -> dict[str, BuiltKernel]:
    _, binaries = build_best(bodies, lambda name: kernel_sources(name, bodies[name], mesh, f"cuda:{ARCH}"), [ARCH])
    return {name: kernel for (name, _), kernel in binaries.items()}


def test_gemms_use_tensor_cores_and_asynchronous_copies() -> None:
    """Require at least 98 % of the FLOPs on 8- and 16-bit operands."""
    flops = Counter[bool]()
    for gemm in built().values():
        flops[missing(gemm.kernel.instructions, ARCH) == 0] += int(gemm.flops)
    assert flops[True] >= 0.98 * flops.total()


def test_plain_gemm_operands_are_copied_by_tma() -> None:
    for name, gemm in built().items():
        dots = [node for node in gemm.body.nodes if node.op == "dot_general"]
        if dots and gemm_extents(dots[0])[3] >= TMA_K:
            assert gemm.kernel.instructions.get("UTMALDG"), name
            assert "LDGSTS" not in gemm.kernel.instructions, name


def test_gemms_do_not_spill() -> None:
    assert [name for name, gemm in built().items() if gemm.kernel.spill_bytes or gemm.kernel.stack_bytes] == []


@pytest.mark.parametrize("name, unit", [("large", "HGMMA"), ("f16", "HGMMA"), ("f8", "QGMMA"), ("i8", "IGMMA")])
def test_gemms_use_wgmma(name: str, unit: str) -> None:
    """Check that accumulators of 8-bit floats are promoted: each loop iteration starts from zero and is added in f32."""
    kernel = built()[name].kernel
    text = kernel.ptx.decode()
    scales = re.findall(r"wgmma\.mma_async[^;]*, (\S+), 1, 1[;,]", text)
    assert ("0" in scales) == (unit == "QGMMA"), scales  # 0 means that the MMA overwrites its accumulator
    assert kernel.instructions[unit] and min(map(int, re.findall(r"wgmma\.mma_async\S*m64n(\d+)k", text))) >= 128


@pytest.mark.parametrize(
    "name, most",
    [("large", 40), ("large_rows", 40), ("large_columns", 40), ("layer", 40), ("f16", 40), ("f32_results", 40), ("gated", 40), ("small", 48), ("few_rows", 48), ("i8_rows", 40), ("f8_rows", 44 + 64), ("f8_narrow", 40 + 64)],
)  # fmt: skip
def test_gemm_main_loops_are_short(name: str, most: int) -> None:
    """Bound the instructions of a warp per four MMAs of shape m64n256k16.

    The MMAs of `few_rows` are m64n64; those of `small`, `f32_results`, `gated` and 8-bit operands are m64n128. Measured
    for a bf16 tile of 128 x 256 x 64:
    - pointer loads: 92 instructions
    - TMA loads: 84
    - warp-specialized loops: at most 36

    Loops for 8-bit floats have 64 more instructions, which accumulate an iteration in f32. Besides these, they have 39
    with four stages, 43 with three, and 74 without warp specialization.
    """
    multiplying, instructions = main_loop(built()[name].kernel.cubin)
    assert 4 * instructions <= most * multiplying


def side_by_side() -> Graph:
    """Return three GEMMs of one left operand with unequal widths, one of them with an epilogue."""
    b = Body("bf16[4096,4096]", "bf16[4096,4096]", "bf16[4096,1024]", "bf16[4096,1024]", "bf16[4096,4096]", name="side")
    x, q, k, v, residual = b.inputs
    first, *narrow = (b.dot(x, w, ((1,), (0,))) for w in (q, k, v))
    return b.done(b.op("add", first, residual), *narrow)


def summed_rows() -> Graph:
    """Return the gradient of expert weights."""
    b = Body("bf16[8192,4096]", "bf16[8192,14336]", "i32[8]", "i32[8]", name="summed")
    return b.done(b.op("ragged_dot", *b.inputs, to="bf16[8,4096,14336]", contracts=True))


def experts(count: int, width: int = 4096) -> Graph:
    """Return a ragged matmul by expert weights, gated if `count` is 2. ReLU keeps the epilogue out of the loop's count."""
    matrices = [f"bf16[8,{width},14336]"] * count
    b = Body(f"bf16[8192,{width}]", *matrices, "i32[8]", "i32[8]", name="experts")
    x, *weights, starts, ends = b.inputs
    matmuls = [b.op("ragged_dot", x, w, starts, ends, to="bf16[8192,14336]", contracts=False) for w in weights]
    active = b.op("maximum", matmuls[0], b.splat(0, matmuls[0]))
    return b.done(b.op("multiply", active, matmuls[-1]) if count > 1 else active)


def added() -> Graph:
    """Return a GEMM with an f32 residual."""
    b = Body("bf16[8192,4096]", "bf16[4096,4096]", "f32[8192,4096]", name="added")
    x, w, residual = b.inputs
    return b.done(b.op("add", b.dot(x, w, ((1,), (0,)), dtype="f32"), residual))


def gated_f32() -> Graph:
    """Return a gated unit of two GEMMs with f32 results."""
    b = Body("bf16[8192,4096]", "bf16[4096,4096]", "bf16[4096,4096]", name="gated_f32")
    x, *weights = b.inputs
    gate, up = (b.dot(x, w, ((1,), (0,)), dtype="f32") for w in weights)
    return b.done(b.op("multiply", b.op("maximum", gate, b.splat(0, gate)), up))


def computed(dtype: str) -> Graph:
    """Return a GEMM whose left operand is computed in the kernel: `x * y`, or `x` converted to bf16."""
    b = Body(f"{dtype}[8192,4096]", "bf16[4096,4096]", "bf16[8192,4096]", name="computed")
    x, w, y = b.inputs
    left = b.op("multiply", x, y) if dtype == "bf16" else b.op("convert", x, to="bf16[8192,4096]")
    return b.done(b.dot(left, w, ((1,), (0,))))


@pytest.mark.parametrize("body, most", [
    (side_by_side(), 40), (summed_rows(), 40), (experts(2), 40), (experts(1, 3584), 40), (added(), 44), (gated_f32(), 44), (computed("bf16"), 112), (computed("f32"), 112),
], ids=["side by side", "summed rows", "gated experts", "experts of uneven steps", "f32 residual", "gated, f32", "two operands", "converted"])  # fmt: skip
def test_main_loops_with_complex_epilogues_are_short(body: Graph, most: int) -> None:
    """Bound the instructions per four m64n128k16 MMAs of GEMMs with larger epilogues or computed operands.

    - f32 residuals: 44 instructions; gated f32 results: 43.5. Shared memory has room for only three stages beside the
      epilogue's layout, and Triton 3.6 divides by three in each iteration. Four stages with m64n64k16 MMAs take 30
      instructions but read the left operand twice as often. With the writes of the copies, that needs 176 bytes of
      shared
      memory traffic per cycle; the hardware has 128 (derived).
    - computed left operand, 32 elements of a thread per four MMAs: 99 and 98 instructions with Triton 3.6, 110 and 105
      with 3.9. Without warp specialization, the loops took 149 and 152.
    """
    (kernel,) = _best({"kernel": body}, ONE).values()
    multiplying, instructions = main_loop(kernel.cubin)
    assert 4 * instructions <= most * multiplying and kernel.threads == 384
    assert kernel.spill_bytes == kernel.stack_bytes == 0
    assert "UTMALDG" in kernel.instructions and "LDGSTS" not in kernel.instructions


def main_loop(cubin: bytes) -> tuple[int, int]:
    """Return the MMAs and the instructions of the innermost loop with MMAs, the longest relative to its MMAs."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([str(tool), "-c", file.name], capture_output=True, text=True, check=True).stdout
    labels, code = dict[str, int](), list[str]()
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*)", line):
            code.append(instruction[1])
    loops: list[range] = []
    for position, line in enumerate(code):
        jump = re.search(r"\bBRA\b.*`\((\.L_x_\d+)\)", line)
        if jump and (start := labels.get(jump[1], position + 1)) <= position:
            loops.append(range(start, position + 1))
    innermost: list[tuple[int, int]] = []
    covered = set[int]()
    for loop in sorted(loops, key=len):
        count = sum(bool(re.search(r"\b[HQI]GMMA\.", code[position])) for position in loop)
        if count and covered.isdisjoint(loop):
            innermost.append((count, len(loop)))
            covered |= {*loop}
    return max(innermost, key=lambda loop_counts: loop_counts[1] / loop_counts[0])
