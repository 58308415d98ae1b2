"""Kernels of a transformer block are as good as hand-written ones: they are few, read each row once, and compute cheap
ops in GEMM epilogues.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from meshgen import api
from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.memory_efficiency import efficiency, kernel_traffic
from meshgen.compiled.executable import Executable
from meshgen.ops.factors import Factors
from meshgen.ops.segments import segments
from tests.acceptance.cases import ROOT, needs_cases, realistic

EXAMPLE = ROOT / "examples" / "transformer_block.mlir"
MAX_LAUNCHES = 8
PROGRAMS = [
    pytest.param(EXAMPLE, id="example"),
    pytest.param(realistic("block_dp_tp_bf16"), id="block_dp_tp_bf16", marks=needs_cases),
]


@dataclass(frozen=True)
class Kernel:
    """A generated kernel: its source, the ops of its body, its segments, and its loads and stores that address an
    entire row (`row * N + col`).
    """

    text: str
    ops: tuple[str, ...]
    segments: int
    row_loads: tuple[str, ...]
    row_stores: tuple[str, ...]


def kernels(executable: Executable) -> list[Kernel]:
    """Return the kernel of each launch, in launch order."""
    launched: list[Kernel] = []
    for item in executable.plan.items:
        if not item.is_collective:
            text = executable.sources[item.kernel].text
            body = executable.plan.kernels[item.kernel]
            ops = tuple(node.op for node in body.nodes)
            loads = tuple(re.findall(r"tl\.load\((\w+) \+ row\b", text))
            stores = tuple(re.findall(r"tl\.store\((\w+) \+ row\b", text))
            launched.append(Kernel(text, ops, len(segments(body)), loads, stores))
    return launched


@pytest.fixture(params=PROGRAMS, scope="module")
def executable(request: pytest.FixtureRequest) -> Executable:
    return api.plan(request.param, target="cuda:sm_90,sm_80")


def test_transformer_block_needs_few_launches(executable: Executable) -> None:
    assert 0 < executable.cost.kernels <= MAX_LAUNCHES
    assert executable.comms.counts == {"all_reduce": 2}


def test_every_op_is_in_a_kernel_or_collective(executable: Executable) -> None:
    ops = {node.op for node in executable.fused.graph.nodes}
    assert ops <= {"kernel", "view", "all_reduce"}


def test_layer_norm_is_one_kernel_that_reads_each_row_once(executable: Executable) -> None:
    """The block has two layer norms. Each is one kernel that computes mean, variance and normalized rows."""
    norms = [k for k in kernels(executable) if "rsqrt" in k.ops]
    assert len(norms) == 2
    for norm in norms:
        assert norm.ops.count("reduce") == 2
        assert len(norm.row_loads) == len(set(norm.row_loads)) and len(norm.row_stores) == len(set(norm.row_stores))
    first, second = norms
    assert (len(first.row_loads), len(first.row_stores)) == (1, 1)
    # The second norm includes the residual add: it loads the addend and stores the sum for the next residual.
    assert (len(second.row_loads), len(second.row_stores)) == (2, 2)


def test_attention_kernel_stores_only_its_result(executable: Executable) -> None:
    """Both GEMMs and the softmax are one kernel. No kernel loads or stores a tensor as large as the scores."""
    (attention,) = (k for k in kernels(executable) if "attention" in k.ops)
    assert attention.text.count("tl.store(") == 1
    bodies = executable.plan.kernels.values()
    (node,) = (node for body in bodies for node in body.nodes if node.op == "attention")
    factors = Factors.of(node)
    scores = sorted(factors.sizes[f] for f in (*factors.rows, *factors.keys))
    assert not any(sorted(v.type.sizes) == scores for body in bodies for v in (*body.inputs, *body.outputs))


def test_reductions_keep_their_row_in_registers(executable: Executable) -> None:
    """A reduction kernel without a loop over the row loads the row once and keeps it in registers."""
    for kernel in kernels(executable):
        if "reduce" in kernel.ops and "dot_general" not in kernel.ops:
            assert "for " not in re.sub(r'"""(.|\n)*?"""', "", kernel.text)


def test_cheap_ops_are_fused_into_dot_epilogues(executable: Executable) -> None:
    """Only the residual add after the last all_reduce has a kernel that is neither a dot nor a reduction."""
    launched = kernels(executable)
    plain = [k for k in launched if not {"dot_general", "reduce", "attention"} & {*k.ops}]
    assert len(plain) == 1
    assert set(plain[0].ops) <= {"add", "convert", "broadcast_in_dim", "reshape"}
    gelu = [k for k in launched if "tanh" in k.ops]
    assert len(gelu) == 1 and "dot_general" in gelu[0].ops
    assert gelu[0].ops.count("add") >= 2  # one is the bias add, another is inside GELU


def test_dot_stores_its_result_once(executable: Executable) -> None:
    """Each dot stores its result in the dtype that the next user reads. So no separate kernel casts between two dots."""
    for kernel in kernels(executable):
        if "dot_general" in kernel.ops:
            assert kernel.text.count("tl.dot(") >= 1
            # segments of a kernel with equal result types share one store
            assert 1 <= kernel.text.count("tl.store(") <= kernel.segments
            assert ".to(tl.bfloat16))" in kernel.text


def test_kernels_use_most_of_each_memory_sector(executable: Executable) -> None:
    """The used fraction of loaded and stored sectors is weighted by bytes. Tile rows fill entire sectors, even if an
    operand is transposed.
    """
    bodies, counts = executable.plan.kernels, executable.plan.launch_counts()
    weighted = [
        replace(traffic, wanted=traffic.wanted * counts[name], moved=traffic.moved * counts[name])
        for name, source in executable.sources.items()
        for traffic in kernel_traffic(source, bodies[name])
    ]
    assert all(traffic.moved > 0 for traffic in weighted) and efficiency(weighted) > 0.9


def build(executable: Executable) -> None:
    """Build all kernels for sm_80 and sm_90, and require that none spills registers."""
    requests = [request_of(name, s, executable.plan.kernels[name]) for name, s in executable.sources.items()]
    built = build_kernels(requests, ["sm_80", "sm_90"])
    assert set(built) == {(name, arch) for name in executable.sources for arch in ("sm_80", "sm_90")}
    spilling = {key: kernel.spill_bytes for key, kernel in built.items() if kernel.spill_bytes}
    assert spilling == {}
    assert all(kernel.cubin.startswith(b"\x7fELF") for kernel in built.values())


def test_built_kernels_do_not_spill_registers() -> None:
    pytest.importorskip("triton")
    build(api.plan(EXAMPLE, target="cuda:sm_90,sm_80"))
