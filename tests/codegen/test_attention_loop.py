"""Test of attention's main loop against a handwritten Triton kernel: issue slots per matrix instruction."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from bodies import ONE
from test_attention import CAUSAL
from test_attention_build import LONG, kernel
from test_triton_source_build import built

from meshgen.codegen.triton_source import kernel_source

triton = pytest.importorskip("triton")
compiler = pytest.importorskip("triton.compiler")
backends = pytest.importorskip("triton.backends.compiler")
tl = triton.language
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def by_hand(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    heads,
    rows: tl.constexpr,
    d: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
):
    """Attention without a mask over contiguous heads, as in Triton's fused attention tutorial."""
    first, head = tl.program_id(0) * block_m, tl.program_id(1)
    keys = tl.make_tensor_descriptor(k_ptr, [heads * rows, d], [d, 1], [block_n, d])
    values = tl.make_tensor_descriptor(v_ptr, [heads * rows, d], [d, 1], [block_n, d])
    queries = tl.make_tensor_descriptor(q_ptr, [heads * rows, d], [d, 1], [block_m, d])
    results = tl.make_tensor_descriptor(out_ptr, [heads * rows, d], [d, 1], [block_m, d])
    q = queries.load([head * rows + first, 0])
    acc = tl.zeros([block_m, d], tl.float32)
    high = tl.full([block_m], float("-inf"), tl.float32)
    total = tl.zeros([block_m], tl.float32)
    factor = scale * _LOG2_E
    for n in range(0, rows, block_n):
        scores = tl.dot(q, keys.load([head * rows + n, 0]).T)
        higher = tl.maximum(high, tl.max(scores, 1) * factor)
        weights = tl.exp2(scores * factor - higher[:, None])
        rescale = tl.exp2(high - higher)
        total = total * rescale + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.bfloat16), values.load([head * rows + n, 0]), acc * rescale[:, None])
        high = higher
    results.store([head * rows + first, 0], (acc / total[:, None]).to(tl.bfloat16))


def cubin_by_hand(d: int, block_m: int, block_n: int, warps: int, stages: int) -> bytes:
    constants = {"rows": 4096, "d": d, "block_m": block_m, "block_n": block_n}
    names = by_hand.arg_names
    types: dict[str, str] = {name: "*bf16" if name.endswith("_ptr") else "constexpr" for name in names}
    types |= {"scale": "fp32", "heads": "i32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name.endswith("_ptr")}
    source = compiler.ASTSource(by_hand, types, {(names.index(n),): value for n, value in constants.items()}, aligned)
    target = backends.GPUTarget("cuda", 90, 32)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    return triton.compile(source, target=target, options=options).asm["cubin"]


def slots_per_product(cubin: bytes, directory: Path) -> float:
    """Return the instructions per HGMMA of the shortest loop that contains all matmuls of an iteration."""
    path = directory / "kernel.cubin"
    path.write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    text = subprocess.run([str(tool), "-c", str(path)], capture_output=True, text=True, check=True).stdout
    labels: dict[str, int] = {}
    lines = list[tuple[str, str]]()
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(lines)
        elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)(.*)", line):
            lines.append((instruction[1], instruction[2]))
    loops = list[tuple[int, int]]()
    for end, (name, rest) in enumerate(lines):
        target = re.search(r"`\((\.L_x_\d+)\)", rest) if name == "BRA" else None
        start = labels.get(target[1], end + 1) if target else end + 1
        loops.append((sum(n == "HGMMA" for n, _ in lines[start : end + 1]), end + 1 - start))
    most_products = max(products for products, _ in loops)
    return min(length for products, length in loops if products == most_products) / most_products


@pytest.mark.parametrize(
    "sizes", [pytest.param(LONG, id="rows of 128"), pytest.param((8, 1024, 12, 64, 1024, 12), id="rows of 64")]
)
def test_attention_main_loop_is_as_short_as_handwritten_kernel(
    sizes: tuple[int, int, int, int, int, int], tmp_path: Path
) -> None:
    """Allow 15 % more issue slots for the same tile. The separate loop over masked blocks does not count."""
    body = kernel(sizes, CAUSAL)
    source = kernel_source("kernel", body, ONE, "cuda:sm_90")
    m, n = source.constants["BLOCK_M"], source.constants["BLOCK_N"]
    handwritten_slots = slots_per_product(cubin_by_hand(sizes[3], m, n, source.num_warps, source.num_stages), tmp_path)
    assert slots_per_product(built(body, "sm_90").cubin, tmp_path) <= 1.15 * handwritten_slots
